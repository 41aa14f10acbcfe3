use std::sync::atomic::AtomicU32;

use super::*;
use crate::evidence::EvidenceKind;
use crate::view::ServerId;

fn counter() -> (Arc<AtomicU32>, Callback) {
    let calls = Arc::new(AtomicU32::new(0));
    let in_callback = calls.clone();
    (
        calls,
        Box::new(move || {
            in_callback.fetch_add(1, Ordering::Relaxed);
        }),
    )
}

#[test]
fn each_publish_wakes_every_subscriber() {
    let published = Published::new("main");
    let (first, callback) = counter();
    published.subscribe(callback);
    let (second, callback) = counter();
    published.subscribe(callback);
    published.publish_view(View { number: 1, ..View::empty("main") });
    published.publish_accounts(Accounts { number: 7, ..Accounts::default() });
    assert_eq!((first.load(Ordering::Relaxed), second.load(Ordering::Relaxed)), (2, 2));
    assert_eq!((published.view.load().number, published.accounts.load().number), (1, 7));
}

#[test]
fn evidence_is_coalesced_and_bounded() {
    let published = Published::new("main");
    let (wakes, callback) = counter();
    published.attach_control(callback);
    let lost = |server| Evidence { server: ServerId(server), kind: EvidenceKind::ConnectionLost };
    for _ in 0..1000 {
        published.evidence(lost(1));
    }
    assert_eq!(wakes.load(Ordering::Relaxed), 1);
    assert_eq!(published.take_evidence(), [lost(1)]);
    (0..1000).for_each(|server| published.evidence(lost(server)));
    assert_eq!(published.take_evidence().len(), EVIDENCE_MAX);
    assert!(published.take_evidence().is_empty());
}

#[test]
fn positions_are_asked_for_once_until_they_are_read() {
    let published = Published::new("main");
    let (wakes, callback) = counter();
    published.attach_control(callback);
    (0..3).for_each(|_| published.want_positions());
    assert_eq!((wakes.load(Ordering::Relaxed), published.positions_wanted()), (1, true));
    published.reading_positions();
    assert!(!published.positions_wanted());
    published.want_positions();
    assert_eq!(wakes.load(Ordering::Relaxed), 2);
}

#[test]
fn a_refresh_is_asked_for_once_until_it_is_taken() {
    let published = Published::new("main");
    let (wakes, callback) = counter();
    published.attach_control(callback);
    published.request_accounts_refresh();
    published.request_accounts_refresh();
    assert_eq!(wakes.load(Ordering::Relaxed), 1);
    assert!(published.take_accounts_request());
    assert!(!published.take_accounts_request());
}

#[test]
fn a_catalog_is_fresh_when_a_reading_began_after_the_last_request() {
    let published = Published::new("main");
    let (reported, callback) = counter();
    published.subscribe(callback);
    assert!(!published.catalog_is_fresh(), "it was never read");
    published.request_catalog_refresh();
    let reading = published.catalog_request();
    published.request_catalog_refresh();
    published.catalog_was_read(reading);
    assert!(!published.catalog_is_fresh(), "the second request came when that reading was under way");
    published.catalog_was_read(published.catalog_request());
    assert!(published.catalog_is_fresh());
    assert_eq!(reported.load(Ordering::Relaxed), 2);
}
