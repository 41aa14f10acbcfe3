//! Code that was defined a moment ago is known to all sessions when its maker has the reply.

use crate::locks::{narrow, within};
use crate::statements::start;
use crate::support::{Front, all, families, until, value};

/// No statement shows that it fires a trigger. One that takes a lock is known when its maker has the reply.
#[tokio::test]
async fn a_new_trigger_that_takes_a_lock_is_known() {
    for family in families() {
        let sql = "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY)";
        let (front, _) = narrow(family, "e2e_new_trigger", sql).await;
        let (mut one, mut two) = (within(&front, "e2e_new_trigger").await, within(&front, "e2e_new_trigger").await);
        for _ in 0..3 {
            all(&mut one, "CREATE TRIGGER taking BEFORE INSERT ON t FOR EACH ROW DO GET_LOCK('taken', 0)").await;
            all(&mut two, "INSERT INTO t VALUES (NULL)").await;
            front.is_pinned_by(&["user_lock"]).await;
            assert_eq!(value(&mut two, "SELECT RELEASE_ALL_LOCKS()").await, "1");
            front.is_pinned_by(&[]).await;
            all(&mut one, "DROP TRIGGER taking").await;
        }
    }
}

/// Another worker than the maker's has to have heard of it, too.
#[tokio::test]
async fn a_new_trigger_is_known_to_each_worker() {
    const OTHERS: usize = 4;
    for family in families() {
        let sql = "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY)";
        let (front, servers) = start(family, "e2e_new_code", sql).await;
        drop(front);
        let front = Front::start(servers, |setup| setup.proxy = "workers = 4\ndrain_ms = 200".into()).await;
        let mut maker = within(&front, "e2e_new_code").await;
        let mut others = Vec::new();
        for _ in 0..OTHERS {
            others.push(within(&front, "e2e_new_code").await);
        }
        let lock = "GET_LOCK(CONCAT('taken', CONNECTION_ID()), 0)";
        for _ in 0..30 {
            all(&mut maker, &format!("CREATE TRIGGER taking BEFORE INSERT ON t FOR EACH ROW DO {lock}")).await;
            for other in &mut others {
                all(other, "INSERT INTO t VALUES (NULL)").await;
            }
            until("all to be pinned by their locks", async || {
                let labels = ["reason=\"user_lock\""];
                let pinned = front.metrics().await.sum("sqluice_pinned_sessions", &labels);
                (pinned == OTHERS as f64).then_some(())
            })
            .await;
            for other in &mut others {
                assert_eq!(value(other, "SELECT RELEASE_ALL_LOCKS()").await, "1");
            }
            all(&mut maker, "DROP TRIGGER taking").await;
        }
    }
}
