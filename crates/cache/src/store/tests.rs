use std::task::{Context as Waits, Poll, Waker};

use super::*;
use crate::Context;
use crate::write_counters::TableId;

const MS: Duration = Duration::from_millis(1);
const FRESH: Freshness = Freshness { ttl: Duration::from_millis(100), stale: Duration::from_millis(50) };

struct Case {
    store: Arc<Store>,
    counters: WriteCounters,
    context: Context,
    start: Instant,
}

impl Case {
    fn new(memory_max: usize, entry_max: usize) -> Case {
        Case {
            store: Arc::new(Store::new(Bounds { memory_max, entry_max })),
            counters: WriteCounters::default(),
            context: Context::new([&b"app"[..]]),
            start: Instant::now(),
        }
    }

    fn question<'a>(&'a self, text: &'a str) -> Question<'a> {
        Question { context: &self.context, text: text.as_bytes(), parameters: None }
    }

    fn ask(&self, text: &str, at: u32) -> Lookup {
        self.store.ask(&self.question(text), &self.counters, FRESH, self.start + at * MS, false)
    }

    fn parts(&self, reply: Result<&[u8], Refusal>, at: u32) -> AnswerParts {
        AnswerParts {
            reply: reply.map(Box::from),
            summary: Summary {
                rows: 1,
                found_rows: None,
                status: 2,
                server: 0,
                took: MS,
                asked: self.start + at * MS,
                digest: 7,
            },
            rule: "r".into(),
            cluster: "main".into(),
            tier: None,
        }
    }

    fn fill(&self, text: &str, reply: &[u8], at: u32) -> Result<(), Refusal> {
        let Lookup::Fill(ticket) = self.ask(text, at) else { panic!("{text} is known") };
        ticket.keep(&self.question(text), self.counters.stamp(|| None), self.parts(Ok(reply), at), &self.counters)
    }

    fn reply(&self, text: &str, at: u32) -> Option<Vec<u8>> {
        match self.ask(text, at) {
            Lookup::Hit(answer) | Lookup::Stale(answer) => Some(answer.reply().unwrap().to_vec()),
            _ => None,
        }
    }
}

#[test]
fn an_answer_is_given_until_it_is_too_old_or_something_was_written() {
    let case = Case::new(1 << 20, 1 << 10);
    case.fill("a", b"one", 0).unwrap();
    assert_eq!(case.reply("a", 100).unwrap(), b"one");
    assert!(case.reply("A", 0).is_none(), "byte for byte");
    case.counters.written(None);
    assert!(matches!(case.ask("a", 1), Lookup::Fill(_)));
    assert_eq!(case.store.size(), Removed::default(), "what is stale makes room");
    case.fill("a", b"two", 10).unwrap();
    assert!(matches!(case.ask("a", 161), Lookup::Fill(_)));
}

#[test]
fn what_is_found_without_asking_is_no_older_than_a_write_and_asks_nobody() {
    let case = Case::new(1 << 20, 1 << 10);
    let reply = std::cell::RefCell::default();
    let find = |text: &str| case.store.find(&case.question(text), &case.counters, &mut reply.borrow_mut());
    assert!(find("a").is_none());
    case.fill("a", b"one", 0).unwrap();
    let found = find("a").unwrap();
    assert!(matches!(found, Hit::Copied(_)));
    assert_eq!((&reply.borrow()[..], found.summary().age(case.start + 7 * MS)), (&b"one"[..], 7 * MS));
    assert!(find("A").is_none());
    let long = vec![7; COPIED_MAX + 1];
    let large = Case::new(1 << 20, 2 * COPIED_MAX);
    large.fill("long", &long, 0).unwrap();
    let found = large.store.find(&large.question("long"), &large.counters, &mut Vec::new());
    assert!(
        matches!(found, Some(Hit::Kept(answer)) if answer.reply() == Ok(&long[..])),
        "nobody waits while it is copied"
    );
    case.counters.written(None);
    assert!(
        find("a").is_none() && matches!(case.ask("a", 1), Lookup::Fill(_)),
        "no fill was handed out that nobody ends"
    );
    // A reply that cannot be kept is no result.
    let Lookup::Fill(ticket) = case.ask("b", 0) else { panic!() };
    let parts = case.parts(Err(Refusal::Warnings), 0);
    ticket.keep(&case.question("b"), case.counters.stamp(|| None), parts, &case.counters).unwrap();
    assert!(find("b").is_none());
}

#[test]
fn a_fill_that_raced_with_a_write_is_not_kept() {
    let case = Case::new(1 << 20, 1 << 10);
    let Lookup::Fill(ticket) = case.ask("a", 0) else { panic!() };
    let stamp = case.counters.stamp(|| None);
    case.counters.written(Some(&[TableId::of(1).into()]));
    assert_eq!(ticket.keep(&case.question("a"), stamp, case.parts(Ok(b"old"), 0), &case.counters), Err(Refusal::Raced));
    assert!(matches!(case.ask("a", 1), Lookup::Fill(_)));
}

#[test]
fn who_comes_meanwhile_waits_and_finds_the_answer_or_may_ask_itself() {
    let case = Case::new(1 << 20, 1 << 10);
    let mut cx = Waits::from_waker(Waker::noop());
    let Lookup::Fill(ticket) = case.ask("a", 0) else { panic!() };
    let Lookup::Wait(filling) = case.ask("a", 1) else { panic!() };
    assert_eq!(filling.poll_over(&mut None, &mut cx), Poll::Pending);
    ticket.keep(&case.question("a"), case.counters.stamp(|| None), case.parts(Ok(b"one"), 0), &case.counters).unwrap();
    assert_eq!(filling.poll_over(&mut None, &mut cx), Poll::Ready(()));
    assert_eq!(case.reply("a", 2).unwrap(), b"one");

    let Lookup::Fill(ticket) = case.ask("b", 0) else { panic!() };
    let Lookup::Wait(filling) = case.ask("b", 1) else { panic!() };
    drop(ticket);
    assert_eq!(filling.poll_over(&mut None, &mut cx), Poll::Ready(()));
    assert!(matches!(case.ask("b", 1), Lookup::Fill(_)));
}

#[test]
fn a_stale_answer_is_given_while_somebody_asks_anew_but_never_behind_a_write() {
    let case = Case::new(1 << 20, 1 << 10);
    case.fill("a", b"one", 0).unwrap();
    let Lookup::Fill(ticket) = case.ask("a", 120) else { panic!("the first one behind the TTL asks") };
    assert!(matches!(case.ask("a", 130), Lookup::Stale(_)));
    assert!(matches!(case.ask("a", 151), Lookup::Wait(_)), "too old for that, too");
    drop(ticket);
    case.fill("a", b"two", 160).unwrap();
    let Lookup::Fill(_ticket) = case.ask("a", 270) else { panic!() };
    case.counters.written(None);
    assert!(matches!(case.ask("a", 271), Lookup::Wait(_)));
}

#[test]
fn what_cannot_be_kept_is_remembered_so_that_nobody_waits_for_it() {
    let case = Case::new(1 << 20, 1 << 10);
    let Lookup::Fill(ticket) = case.ask("a", 0) else { panic!() };
    let parts = case.parts(Err(Refusal::Warnings), 0);
    ticket.keep(&case.question("a"), case.counters.stamp(|| None), parts, &case.counters).unwrap();
    assert!(matches!(case.ask("a", 1), Lookup::Pass(Refusal::Warnings)));
    assert!(matches!(case.ask("a", 120), Lookup::Fill(_)), "it is tried again");
}

#[test]
fn what_was_wiped_is_gone_and_what_was_asked_before_is_not_kept() {
    let case = Case::new(1 << 20, 1 << 10);
    case.fill("a", b"one", 0).unwrap();
    case.fill("b", b"two", 0).unwrap();
    let Lookup::Fill(ticket) = case.ask("c", 0) else { panic!() };
    let removed = case.store.wipe(|answer| answer.reply() == Ok(b"one"));
    assert_eq!(removed.entries, 1);
    assert!(removed.bytes > 0);
    assert!(case.reply("a", 1).is_none() && case.reply("b", 1).is_some());
    let kept = ticket.keep(&case.question("c"), case.counters.stamp(|| None), case.parts(Ok(b"x"), 0), &case.counters);
    assert_eq!(kept, Err(Refusal::Raced));

    // Asked anew, the older fill counts no more.
    let Lookup::Fill(older) = case.ask("d", 0) else { panic!() };
    let question = case.question("d");
    let Lookup::Fill(newer) = case.store.ask(&question, &case.counters, FRESH, case.start, true) else { panic!() };
    let keep = |ticket: Ticket, reply| {
        ticket.keep(&question, case.counters.stamp(|| None), case.parts(Ok(reply), 0), &case.counters)
    };
    assert_eq!(keep(older, b"old"), Err(Refusal::Raced));
    assert_eq!(keep(newer, b"new"), Ok(()));
    assert_eq!(case.reply("d", 1).unwrap(), b"new");
}

#[test]
fn memory_stays_under_its_bound_whatever_is_asked() {
    let case = Case::new(256 * 1024, 4 * 1024);
    let mut random = 7_u64;
    for n in 0..20_000_u32 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let text = format!("{n}{}", "k".repeat((random >> 33) as usize % 9_000));
        let reply = vec![0; (random >> 20) as usize % 6_000];
        let Lookup::Fill(ticket) = case.ask(&text, 0) else { continue };
        let kept =
            ticket.keep(&case.question(&text), case.counters.stamp(|| None), case.parts(Ok(&reply), 0), &case.counters);
        assert_eq!(kept.is_err(), reply.len() > 4 * 1024, "{kept:?}");
        assert!(case.store.size().bytes <= 256 * 1024);
        if n % 1_000 == 0 {
            let counted: usize =
                case.store.shards.iter().map(|s| lock(s).answers.values().map(bytes_of).sum::<usize>()).sum();
            assert_eq!(counted as u64, case.store.size().bytes);
        }
    }
    assert!(case.store.evicted() > 1_000);
    case.store.wipe(|_| true);
    assert_eq!(case.store.size(), Removed::default());
}

#[test]
fn what_is_asked_for_stays_while_others_come_and_go() {
    let case = Case::new(64 * 1024, 1 << 10);
    case.fill("hot", b"hot", 0).unwrap();
    for n in 0..2_000 {
        case.fill(&format!("cold {n}"), &[0; 500], 0).unwrap();
        assert!(case.reply("hot", 1).is_some(), "after {n}");
    }
    for _ in 0..2_000 {
        case.counters.written(None);
        case.fill("hot", b"hot", 0).unwrap();
    }
    let queued: usize = case.store.shards.iter().map(|shard| lock(shard).queue.len()).sum();
    assert!(queued < 1_000, "what is gone does not stay in the queue: {queued}");
}
