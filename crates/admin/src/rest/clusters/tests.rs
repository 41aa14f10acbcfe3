//! Commands, and what is answered.

use std::time::SystemTime;

use super::*;
use crate::shared::Sources;
use crate::testing::{FixedStatus, OneCluster, Orders, config, sources};

fn line(kind: LineKind, step: Option<u64>, at_ms: u64) -> JournalLine {
    let at = SystemTime::UNIX_EPOCH + Duration::from_millis(at_ms);
    JournalLine { number: at_ms, at, run: 3, epoch: 1, kind, step, server: None, text: kind.word().into() }
}

/// The status of the answer to this request, and its page.
fn put(orders: &Arc<Orders>, journal: &[JournalLine], action: &str, body: &str) -> (u16, Value) {
    let mut cluster = OneCluster::new("main");
    cluster.journal = journal.to_vec();
    let sources =
        Sources { status: FixedStatus::one(Arc::new(cluster)), steering: orders.clone(), ..sources(Arc::new([])) };
    let shared = Arc::new(Shared::new(&config(""), sources));
    let path = Path(("main".to_owned(), action.to_owned()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let answer = act(State(shared), path, Bytes::from(body.to_owned())).await.into_response();
        let status = answer.status().as_u16();
        let body = axum::body::to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap())
    })
}

#[test]
fn a_command_is_answered_by_what_came_of_it() {
    let orders = Arc::new(Orders::default());
    let (status, page) = put(&orders, &[], "acknowledge", "");
    assert_eq!((status, &page["error"]), (503, &json!("too many commands wait already; try again")));

    orders.answers.lock().unwrap().push(Err(Refused { reason: "because".into(), others: vec!["b: no".into()] }));
    let (status, page) = put(&orders, &[], "switchover", "");
    assert_eq!((status, page), (409, json!({ "error": "because", "others": ["b: no"] })));

    let accepted = Accepted { run: Some(3), steps: vec!["a step".into()], ..Accepted::default() };
    orders.answers.lock().unwrap().push(Ok(accepted.clone()));
    let (status, page) = put(&orders, &[], "failover", "{\"dry_run\": true}");
    assert_eq!((status, &page["result"], &page["steps"]), (200, &json!("dry_run"), &json!(["a step"])));

    for (kind, status, result) in [(LineKind::Finished, 200, "finished"), (LineKind::Aborted, 409, "aborted")] {
        orders.answers.lock().unwrap().push(Ok(accepted.clone()));
        let journal = [line(LineKind::Step, Some(9), 10), line(LineKind::Done, Some(9), 25), line(kind, None, 30)];
        let (answered, page) = put(&orders, &journal, "switchover", "");
        assert_eq!((answered, &page["result"]), (status, &json!(result)));
        assert_eq!((&page["timings"][0]["ms"], &page["journal"][2]["kind"]), (&json!(15), &json!(kind.word())));
    }
    let commands = orders.commands.lock().unwrap();
    assert_eq!(commands[0], ("main".to_owned(), Command::Switchover { to: None, dry_run: false }));
    assert_eq!(commands[1].1, Command::Failover { to: None, dry_run: true, force: false });
}
