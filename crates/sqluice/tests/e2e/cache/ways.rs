//! Whatever way a row is written in, who asks behind it is not answered by what was read before.

use super::*;

/// Ways to set `n` of row 1 to `{v}`, for both families; statements of one way are apart by `;;`.
const BOTH: &str = "
UPDATE ways SET n = {v} WHERE id = 1
UPDATE ways AS w SET w.n = {v} WHERE w.id = '1'
UPDATE ways SET n = {v} ORDER BY id LIMIT 1
UPDATE ways JOIN ways_other USING (id) SET ways.n = {v}
UPDATE ways_view SET n = {v} WHERE id = 1
REPLACE INTO ways VALUES (1, {v})
REPLACE INTO ways SET id = 1, n = {v}
INSERT INTO ways VALUES (1, 0) ON DUPLICATE KEY UPDATE n = {v}
INSERT INTO ways (id, n) SELECT id, n FROM ways_other ON DUPLICATE KEY UPDATE n = {v}
DELETE FROM ways WHERE id = 1 ;; INSERT INTO ways SET n = {v}, id = 1
DELETE ways FROM ways JOIN ways_other USING (id) ;; INSERT INTO ways (n, id) VALUES ({v}, 1)
/* first */ UPDATE /*!50000 ways */ SET n = {v} -- behind
TRUNCATE ways ;; INSERT INTO ways VALUES (1, {v})
BEGIN ;; UPDATE ways SET n = {v} ;; COMMIT
BEGIN ;; UPDATE ways SET n = {v} ;; SAVEPOINT a ;; UPDATE ways SET n = 0 ;; ROLLBACK TO a ;; COMMIT AND CHAIN ;; ROLLBACK
BEGIN ;; UPDATE ways SET n = {v} WHERE id = 1 ;; BEGIN ;; ROLLBACK
BEGIN ;; UPDATE ways SET n = {v} WHERE id = 1 ;; CREATE TABLE IF NOT EXISTS ways_other (id INT) ;; ROLLBACK
SET autocommit = 0 ;; UPDATE ways SET n = {v} WHERE id = 1 ;; SET autocommit = 1
SET autocommit = 0 ;; UPDATE ways SET n = {v} ;; COMMIT ;; SET autocommit = 1
SELECT 1; UPDATE ways SET n = {v}; SELECT 2
BEGIN; UPDATE ways SET n = {v} WHERE id = 1; COMMIT
LOCK TABLES ways WRITE ;; UPDATE ways SET n = {v} ;; UNLOCK TABLES
XA START 'w{v}' ;; UPDATE ways SET n = {v} WHERE id = 1 ;; XA END 'w{v}' ;; XA COMMIT 'w{v}' ONE PHASE
XA START 'w{v}' ;; UPDATE ways SET n = {v} ;; XA END 'w{v}' ;; XA PREPARE 'w{v}' ;; XA COMMIT 'w{v}'
PREPARE s FROM 'UPDATE ways SET n = {v} WHERE id = 1' ;; EXECUTE s ;; DEALLOCATE PREPARE s
SET @v = {v} ;; PREPARE s FROM 'UPDATE ways SET n = ?' ;; EXECUTE s USING @v ;; DEALLOCATE PREPARE s
CALL ways_put({v})
SELECT ways_set({v})
SELECT ways_set({v}) FROM ways_other
SELECT id FROM ways_other WHERE ways_set({v}) = {v}
SELECT app.ways_set({v}) AS n
DO ways_set({v})
SET @set = ways_set({v})
INSERT INTO ways_log VALUES (ways_set({v}))
UPDATE ways_other SET id = 1 WHERE ways_set({v}) = {v}
INSERT INTO ways_fires VALUES ({v})
RENAME TABLE ways TO ways_old, ways_next TO ways ;; UPDATE ways SET n = {v} ;; RENAME TABLE ways TO ways_next, ways_old TO ways ;; UPDATE ways SET n = {v}
ALTER TABLE ways DROP COLUMN n ;; ALTER TABLE ways ADD COLUMN n INT DEFAULT {v}
DROP TABLE ways ;; CREATE TABLE ways AS SELECT 1 AS id, {v} AS n ;; ALTER TABLE ways ADD PRIMARY KEY (id)
CREATE OR REPLACE VIEW ways_view AS SELECT id, n FROM ways ;; UPDATE ways_view SET n = {v}
";

const MARIADB: &str = "
EXECUTE IMMEDIATE 'UPDATE ways SET n = {v} WHERE id = 1'
BEGIN NOT ATOMIC UPDATE ways SET n = {v}; END
ANALYZE UPDATE ways SET n = {v} WHERE id = 1
ANALYZE FORMAT=JSON UPDATE ways SET n = {v} WHERE id = 1
SET STATEMENT sort_buffer_size = 100000 FOR UPDATE ways SET n = {v} WHERE id = 1
INSERT INTO ways VALUES (1, 0) ON DUPLICATE KEY UPDATE n = {v} RETURNING n
DELETE FROM ways WHERE id = 1 RETURNING n ;; INSERT INTO ways VALUES (1, {v}) RETURNING id
REPLACE INTO ways VALUES (1, {v}) RETURNING n
CREATE OR REPLACE TABLE ways (id INT PRIMARY KEY, n INT) AS SELECT 1 AS id, {v} AS n
IF 1 THEN UPDATE ways SET n = {v}; END IF
FOR i IN 1..1 DO UPDATE ways SET n = {v}; END FOR
";

const MYSQL: &str = "
WITH other AS (SELECT 1 AS id) UPDATE ways JOIN other USING (id) SET n = {v}
WITH other AS (SELECT 1 AS id) DELETE ways FROM ways JOIN other USING (id) ;; INSERT INTO ways VALUES (1, {v})
INSERT INTO ways VALUES (1, {v}) AS new ON DUPLICATE KEY UPDATE n = new.n
";

const TABLES: &str = "SET GLOBAL log_bin_trust_function_creators = ON; USE app; DROP VIEW IF EXISTS ways_view; \
    DROP PROCEDURE IF EXISTS ways_put; DROP FUNCTION IF EXISTS ways_set; \
    DROP TABLE IF EXISTS ways, ways_old, ways_next, ways_other, ways_fires, ways_log; \
    CREATE TABLE ways (id INT PRIMARY KEY, n INT); INSERT INTO ways VALUES (1, 0); \
    CREATE TABLE ways_next (id INT PRIMARY KEY, n INT); INSERT INTO ways_next VALUES (1, 0); \
    CREATE TABLE ways_other (id INT, n INT); INSERT INTO ways_other VALUES (1, 5); \
    CREATE TABLE ways_log (n INT); CREATE TABLE ways_fires (n INT); \
    CREATE TRIGGER ways_fired AFTER INSERT ON ways_fires FOR EACH ROW UPDATE ways SET n = NEW.n; \
    CREATE VIEW ways_view AS SELECT id, n FROM ways; \
    CREATE PROCEDURE ways_put(x INT) UPDATE ways SET n = x WHERE id = 1";

/// Less than each value that a way writes.
const FIRST: u32 = 100;

#[tokio::test]
async fn whatever_way_it_is_written_in_nobody_reads_older() {
    for family in families() {
        accounts(calm(family).await, TABLES).await;
        let front = Front::start(calm(family).await, |setup| {
            setup.admin = format!("key = \"{KEY}\"");
            // Reads that the cache does not answer run on servers with the writes of others.
            setup.listener = "consistency = \"cluster\"".into();
            setup.more = rule("all", "cluster = \"main\"\ncache = \"on\"\ncache_ttl_ms = 600000");
        })
        .await;
        let (mut writer, mut reader) = (front.client().await, front.client().await);
        let function =
            "CREATE FUNCTION ways_set(x INT) RETURNS INT MODIFIES SQL DATA BEGIN UPDATE ways SET n = x; RETURN x; END";
        all(&mut writer, function).await;
        let of_family = if family == Family::MariaDb { MARIADB } else { MYSQL };
        let ways = BOTH.lines().chain(of_family.lines()).filter(|way| !way.is_empty());
        let reads = ["SELECT n FROM ways WHERE id = 1", "SELECT MAX(n) FROM ways", "SELECT n FROM ways_view"];
        let put = writer.prepare("UPDATE ways SET n = ? WHERE id = ?").await.unwrap();
        let (mut v, mut wrong) = (FIRST, Vec::new());
        for way in ways.chain(["prepared"]) {
            for read in reads {
                until_hit(&front, &mut reader, read).await;
                // Right behind a statement that may change rights no answer of the cache is given: now they are again.
                let hit = value(&mut reader, read).await;
                if v > FIRST && hit != v.to_string() {
                    wrong.push(format!("before {way}: the cache has {hit} instead of {v}: {read}"));
                }
            }
            v += 1;
            if way == "prepared" {
                let values = [v.into(), 1].map(net::query::Parameter::Int);
                writer.execute(&put, &values).await.unwrap();
            }
            for statement in way.split(";;").filter(|statement| *statement != "prepared") {
                all(&mut writer, statement.trim().replace("{v}", &v.to_string()).as_str()).await;
            }
            for read in reads {
                for (who, client) in [("reader", &mut reader), ("writer", &mut writer)] {
                    let read_now = value(client, read).await;
                    if read_now != v.to_string() {
                        wrong.push(format!("{way}: {who} reads {read_now} instead of {v}: {read}"));
                    }
                }
            }
        }
        assert!(wrong.is_empty(), "{family:?}:\n{}", wrong.join("\n"));
    }
}
