//! Reads by primary key end with writes to their rows, and with no others.

use net::query::{Parameter, ResultSet};

use super::*;
use crate::follow::direct;

/// Servers' own answers beside the cache's, for reads of which all are kept.
struct Case {
    front: Front,
    client: Client,
    around: Client,
    reads: Vec<String>,
}

impl Case {
    /// The cache answers reads that this write leaves alone; servers answer the others anew, and correctly.
    async fn write(&mut self, write: &str, ended: &[&str]) {
        for read in &self.reads {
            all(&mut self.client, read).await;
            assert!(
                is_hit(&self.front, &mut self.client, read).await,
                "before {write}: {read}: {}",
                page(&self.front).await
            );
        }
        for part in write.split("; ") {
            all(&mut self.client, part).await;
        }
        self.look(write, ended).await;
    }

    async fn look(&mut self, write: &str, ended: &[&str]) {
        for read in &self.reads {
            let before = hits(&self.front, "all").await;
            let seen = rows(all(&mut self.client, read).await);
            let is_hit = hits(&self.front, "all").await > before;
            assert_eq!(is_hit, !ended.contains(&&**read), "{write}: {read}: {}", page(&self.front).await);
            assert_eq!(seen, rows(all(&mut self.around, read).await), "{write}: {read}");
        }
    }
}

/// Their values.
fn rows(results: Vec<ResultSet>) -> Vec<Vec<Vec<Option<Vec<u8>>>>> {
    results.into_iter().map(|result| result.rows).collect()
}

/// `own` is a table that no other test has.
async fn case(family: Family, own: &str, tables: &str, reads: &[&str]) -> Case {
    accounts(calm(family).await, tables).await;
    let rules = rule("all", "cluster = \"main\"\ncache = \"on\"\ncache_ttl_ms = 600000");
    let front = start(family, own, &rules).await;
    let (client, around) = (front.client().await, direct(calm(family).await).await);
    Case { front, client, around, reads: reads.iter().map(|read| (*read).to_owned()).collect() }
}

#[tokio::test]
async fn a_write_to_a_row_ends_what_was_read_of_it_and_of_its_table() {
    for family in families() {
        let (one, two) =
            ("SELECT n FROM cache_rows WHERE id = 1", "SELECT * FROM app.cache_rows r WHERE r.id = '2' LIMIT 1");
        let (none, all) = ("SELECT n FROM cache_rows WHERE id = 7", "SELECT SUM(n) FROM cache_rows");
        let mut case = case(family, "cache_rows", "DO 0", &[one, two, none, all]).await;
        case.write("UPDATE cache_rows SET n = n + 1 WHERE id = 1", &[one, all]).await;
        case.write("UPDATE cache_rows SET n = n + 1 WHERE id = 2 AND n > 0", &[two, all]).await;
        case.write("UPDATE cache_rows SET n = n + 1 WHERE id = '1'", &[one, all]).await;
        case.write("UPDATE cache_rows SET n = n + 1 WHERE id = 1 OR id = 2", &[one, two, none, all]).await;
        case.write("UPDATE cache_rows SET n = n + 1 WHERE id + 0 = 1", &[one, two, none, all]).await;
        case.write("INSERT INTO cache_rows (id, n) VALUES (7, 70), (8, 80)", &[none, all]).await;
        case.write("UPDATE cache_rows SET id = 9 WHERE id = 7", &[one, two, none, all]).await;
        case.write("REPLACE INTO cache_rows SET n = 71, id = 7", &[none, all]).await;
        case.write(
            "INSERT INTO cache_rows (id, n) VALUES (1, 5) ON DUPLICATE KEY UPDATE id = 10",
            &[one, two, none, all],
        )
        .await;
        case.write("INSERT INTO cache_rows VALUES (1, 5)", &[one, two, none, all]).await;
        case.write("DELETE FROM cache_rows WHERE id = 7", &[none, all]).await;
        case.write(
            "BEGIN; UPDATE cache_rows SET n = 3 WHERE id = 1; DELETE FROM cache_rows WHERE id = 7; COMMIT",
            &[one, none, all],
        )
        .await;
        case.write(
            "BEGIN; UPDATE cache_rows SET n = 4 WHERE id = 1; UPDATE cache_rows SET n = n + 1; COMMIT",
            &[one, two, none, all],
        )
        .await;
        let ends = page(&case.front).await["ends"]["main"].clone();
        assert!(ends["by_row"].as_u64() >= Some(7) && ends["by_table"].as_u64() >= Some(6), "{ends}");
        // Executions, with numbers and with text, as drivers have it.
        let by_id = case.client.prepare("UPDATE cache_rows SET n = ? WHERE id = ?").await.unwrap();
        for id in [Parameter::Int(1), Parameter::Bytes(b"1".into())] {
            case.write("DO 0", &[]).await;
            case.client.execute(&by_id, &[Parameter::Int(77), id]).await.unwrap();
            case.look("an execution", &[one, all]).await;
        }
        case.client.execute(&by_id, &[Parameter::Int(78), Parameter::Bytes(b"1.0".into())]).await.unwrap();
        case.look("an execution with another text", &[one, two, none, all]).await;
        let read = case.client.prepare("SELECT n FROM cache_rows WHERE id = ?").await.unwrap();
        for (id, written, is_kept) in [(1, 2, true), (1, 1, false), (2, 1, true), (2, 2, false)] {
            for _ in 0..2 {
                case.client.execute(&read, &[Parameter::Int(id)]).await.unwrap();
            }
            crate::support::all(&mut case.client, &format!("UPDATE cache_rows SET n = n + 1 WHERE id = {written}"))
                .await;
            let before = hits(&case.front, "all").await;
            let seen =
                case.client.execute(&read, &[Parameter::Int(id)]).await.unwrap()[0].scalar().unwrap().into_owned();
            assert_eq!(hits(&case.front, "all").await, before + u64::from(is_kept), "{id} {written}");
            assert_eq!(seen, value(&mut case.around, &format!("SELECT n FROM cache_rows WHERE id = {id}")).await);
        }
    }
}

#[tokio::test]
async fn rows_are_reported_by_whole_keys_and_only_where_a_write_leaves_others_alone() {
    for family in families() {
        let tables = "DROP TABLE IF EXISTS app.rows_key; DROP TABLE IF EXISTS app.rows_auto; DROP TABLE IF EXISTS app.rows_unique; \
             DROP TABLE IF EXISTS app.rows_tree; DROP TABLE IF EXISTS app.rows_folded; \
             CREATE TABLE app.rows_key (b INT UNSIGNED, a VARCHAR(20) COLLATE utf8mb4_bin, n INT, PRIMARY KEY (a, b)); \
             INSERT INTO app.rows_key VALUES (1, 'x', 1), (2, 'x', 2), (1, 'X', 3); \
             CREATE TABLE app.rows_auto (id INT AUTO_INCREMENT PRIMARY KEY, n INT); INSERT INTO app.rows_auto VALUES (1, 1); \
             CREATE TABLE app.rows_unique (id INT PRIMARY KEY, u INT UNIQUE, n INT); INSERT INTO app.rows_unique VALUES (1, 1, 1), (2, 2, 2); \
             CREATE TABLE app.rows_tree (id INT PRIMARY KEY, up INT, FOREIGN KEY (up) REFERENCES app.rows_tree (id) ON DELETE CASCADE); \
             INSERT INTO app.rows_tree VALUES (1, NULL), (2, 1), (3, NULL); \
             CREATE TABLE app.rows_folded (a VARCHAR(20) COLLATE utf8mb4_general_ci PRIMARY KEY, n INT); INSERT INTO app.rows_folded VALUES ('a', 1), ('b', 2)";
        let (x1, x2) =
            ("SELECT n FROM rows_key WHERE a = 'x' AND b = 1", "SELECT n FROM rows_key WHERE b = 2 AND a = 'x'");
        let (upper, part) = ("SELECT n FROM rows_key WHERE a = 'X' AND b = 1", "SELECT n FROM rows_key WHERE a = 'x'");
        let (auto1, auto2) = ("SELECT n FROM rows_auto WHERE id = 1", "SELECT n FROM rows_auto WHERE id = 2");
        let (unique1, unique2) = ("SELECT n FROM rows_unique WHERE id = 1", "SELECT n FROM rows_unique WHERE id = 2");
        let (tree2, tree3) = ("SELECT up FROM rows_tree WHERE id = 2", "SELECT up FROM rows_tree WHERE id = 3");
        let (folded_a, folded_b) =
            ("SELECT n FROM rows_folded WHERE a = 'A'", "SELECT n FROM rows_folded WHERE a = 'b'");
        let reads = [x1, x2, upper, part, auto1, auto2, unique1, unique2, tree2, tree3, folded_a, folded_b];
        let mut case = case(family, "cache_whole_keys", tables, &reads).await;
        case.write("UPDATE rows_key SET n = 11 WHERE a = 'x' AND b = 1", &[x1, part]).await;
        case.write("UPDATE rows_key SET n = 12 WHERE a = 'x  ' AND b = 2", &[x2, part]).await;
        case.write("UPDATE rows_key SET n = 13 WHERE a = 'X'", &[x1, x2, upper, part]).await;
        case.write("INSERT INTO rows_auto (n) VALUES (5)", &[auto2]).await;
        case.write("DELETE FROM rows_auto WHERE id = 2", &[auto2]).await;
        case.write("INSERT INTO rows_auto (n) VALUES (5), (6)", &[auto1, auto2]).await;
        case.write("INSERT INTO rows_unique (id, u, n) VALUES (3, 3, 3)", &[]).await;
        case.write("REPLACE INTO rows_unique (id, u, n) VALUES (3, 1, 3)", &[unique1, unique2]).await;
        case.write("DELETE FROM rows_tree WHERE id = 1", &[tree2, tree3]).await;
        case.write("UPDATE rows_folded SET n = 3 WHERE a = 'a'", &[folded_a, folded_b]).await;
    }
}
