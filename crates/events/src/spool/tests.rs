use super::*;
use crate::block::{Block, Class, Lines};

fn settings(folder: &Path) -> SpoolSettings {
    SpoolSettings { path: folder.join("spool"), bytes_max: 1 << 20, age_max: Duration::ZERO }
}

/// A block of three events, whose lines do not compress.
fn block(first: u64, bytes: usize) -> Arc<Block> {
    let mut block = Block::begin(first, std::time::SystemTime::now());
    let mut state = first;
    for number in first..first + 3 {
        let noise = (0..bytes).map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        });
        block.put(number, Class::QUERY, Lines { form: &noise.collect::<Vec<u8>>(), ..Lines::default() });
    }
    Arc::new(block)
}

/// A process that puts blocks of three events with these first numbers into the spool, and ends.
fn filled(settings: &SpoolSettings, firsts: &[u64], bytes: usize) {
    let (spool, _) = Spool::open(settings, Arc::default()).unwrap();
    let spool = Arc::new(spool);
    spool.keep_for("a", 1);
    spool.start(1).unwrap();
    for first in firsts {
        // None is lost because there was no room in memory.
        while spool.queue.numbers().is_some() {
            std::thread::yield_now();
        }
        spool.queue.push(&block(*first, bytes));
    }
    spool.stop();
}

/// The first numbers of the blocks that a reader gets from a number on.
fn read(settings: &SpoolSettings, from: u64) -> (Vec<u64>, u64, SpoolFigures) {
    let (spool, next) = Spool::open(settings, Arc::default()).unwrap();
    let spool = Arc::new(spool);
    let mut reader = Reader::new(spool.clone(), from);
    let firsts = std::iter::from_fn(|| reader.next_block(Duration::ZERO)).map(|block| block.first).collect();
    (firsts, next, spool.figures())
}

fn segment(settings: &SpoolSettings, first: u64) -> PathBuf {
    segments::path(&settings.path, first)
}

#[test]
fn blocks_come_back_from_any_number_on() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path());
    filled(&settings, &[1, 4, 7], 100);
    // The next process begins another segment.
    filled(&settings, &[10, 13], 100);
    for (from, expected) in [(1, vec![1, 4, 7, 10, 13]), (5, vec![4, 7, 10, 13]), (12, vec![10, 13]), (16, vec![])] {
        assert_eq!(read(&settings, from).0, expected, "from {from}");
    }
    assert_eq!(read(&settings, 1).1, 16);
    // A cursor beyond the end finds nothing, and no mistake.
    assert_eq!(read(&settings, 1_000), (vec![], 16, read(&settings, 1).2));
}

#[test]
fn a_torn_tail_is_cut_at_the_last_whole_block() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path());
    filled(&settings, &[1], 20);
    let one = std::fs::read(segment(&settings, 1)).unwrap();
    std::fs::remove_file(segment(&settings, 1)).unwrap();
    filled(&settings, &[1, 4], 20);
    let both = std::fs::read(segment(&settings, 1)).unwrap();
    for length in one.len()..both.len() {
        std::fs::write(segment(&settings, 1), &both[..length]).unwrap();
        let (firsts, next, figures) = read(&settings, 1);
        assert_eq!((firsts, next, figures.damaged), (vec![1], 4, 0), "{length} bytes");
        assert_eq!(std::fs::metadata(segment(&settings, 1)).unwrap().len(), one.len() as u64);
    }
    for length in 0..one.len() {
        std::fs::write(segment(&settings, 1), &one[..length]).unwrap();
        assert_eq!(read(&settings, 1), (vec![], 1, SpoolFigures::default()), "{length} bytes");
        assert!(!segment(&settings, 1).exists());
    }
}

#[test]
fn a_flipped_bit_costs_one_block_and_no_number_is_used_twice() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path());
    filled(&settings, &[1, 4, 7], 20);
    let whole = std::fs::read(segment(&settings, 1)).unwrap();
    let third = whole.len() / 3;
    for place in 0..whole.len() {
        let mut flipped = whole.clone();
        flipped[place] ^= 0x10;
        std::fs::write(segment(&settings, 1), &flipped).unwrap();
        let lost = place / third;
        let expected: Vec<u64> =
            [1, 4, 7].into_iter().enumerate().filter(|(at, _)| *at != lost).map(|(_, first)| first).collect();
        let (firsts, next, _) = read(&settings, 1);
        assert_eq!(firsts, expected, "byte {place} of {}", whole.len());
        // If the head of the last block is lost, so is the last number; otherwise it is still known.
        let is_head = lost == 2 && (place - 2 * third) < frame::HEAD_BYTES as usize;
        assert_eq!(next, if is_head { 7 } else { 10 }, "byte {place}");
        std::fs::write(segment(&settings, 1), &whole).unwrap();
    }
}

#[test]
fn noise_is_no_block_and_the_segment_behind_it_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path());
    filled(&settings, &[1], 20);
    filled(&settings, &[4], 20);
    filled(&settings, &[7], 20);
    let noise: Vec<u8> = block(4, 70_000).bytes().to_vec();
    std::fs::write(segment(&settings, 4), &noise).unwrap();
    let (firsts, next, figures) = read(&settings, 1);
    assert_eq!((firsts, next, figures.damaged), (vec![1, 7], 10, 1));
    std::fs::write(segment(&settings, 4), [&noise[..], &std::fs::read(segment(&settings, 1)).unwrap()].concat())
        .unwrap();
    // A block of before is behind the reader.
    assert_eq!(read(&settings, 3).0, [1, 7]);
}

#[test]
fn a_full_spool_lets_the_oldest_events_go() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path());
    let firsts: Vec<u64> = (0..60).map(|number| 1 + 3 * number).collect();
    filled(&settings, &firsts, 10_000);
    let (left, next, figures) = read(&settings, 1);
    assert!(figures.bytes <= settings.bytes_max && figures.bytes > settings.bytes_max / 2, "{figures:?}");
    assert_eq!(left, firsts[firsts.len() - left.len()..]);
    assert_eq!(next, 181);
}

#[test]
fn events_that_all_sinks_have_go_and_old_ones_go_too() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path());
    filled(&settings, &[1], 20);
    filled(&settings, &[4], 20);
    let (spool, next) = Spool::open(&settings, Arc::default()).unwrap();
    let spool = Arc::new(spool);
    spool.keep_for("a", 1);
    spool.keep_for("b", 4);
    spool.start(next).unwrap();
    spool.reached("a", 4);
    while segment(&settings, 1).exists() {
        std::thread::yield_now();
    }
    assert!(segment(&settings, 4).exists());
    assert_eq!(spool.figures().removed_unread, 0);
    spool.stop();
    drop(spool);
    let old = SpoolSettings { age_max: Duration::from_micros(1), ..settings.clone() };
    let spool = Arc::new(Spool::open(&old, Arc::default()).unwrap().0);
    spool.keep_for("a", 5);
    spool.start(next).unwrap();
    while segment(&settings, 4).exists() {
        std::thread::yield_now();
    }
    spool.stop();
    assert_eq!(spool.figures().removed_unread, 2);
}

#[test]
fn only_one_process_uses_a_spool() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path());
    let first = Spool::open(&settings, Arc::default()).unwrap();
    let error = Spool::open(&settings, Arc::default()).unwrap_err();
    assert_eq!(error.to_string(), "another process uses this spool");
    drop(first);
    Spool::open(&settings, Arc::default()).unwrap();
}

#[test]
fn a_sink_that_is_gone_is_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path());
    let (spool, _) = Spool::open(&settings, Arc::default()).unwrap();
    for sink in ["file", "syslog.siem"] {
        spool.cursor(sink).unwrap().write(7).unwrap();
    }
    spool.forget_others(&["file"]).unwrap();
    assert_eq!(spool.cursor("file").unwrap().next(), Some(7));
    assert_eq!(spool.cursor("syslog.siem").unwrap().next(), None);
    spool.forget("file");
    assert_eq!(spool.cursor("file").unwrap().next(), None);
}

/// A spool whose appender waits so long for sinks, with more blocks on their way than fit.
fn crowded(settings: &SpoolSettings, wait: Duration) -> Arc<Spool> {
    let flow = Arc::new(Flow::default());
    flow.set(wait);
    let spool = Arc::new(Spool::open(settings, flow).unwrap().0);
    spool.keep_for("a", 1);
    spool.start(1).unwrap();
    (0..15).for_each(|number| spool.queue.push(&block(1 + 3 * number, 50_000)));
    spool
}

#[test]
fn a_full_spool_waits_for_a_sink_that_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let spool = crowded(&settings(folder.path()), Duration::from_secs(60));
    // It is full before the sink reads the first one.
    while spool.figures().bytes < 800_000 {
        std::thread::yield_now();
    }
    let mut reader = Reader::new(spool.clone(), 1);
    for number in 0..15 {
        // Whatever changes wakes a reader.
        let block = std::iter::repeat_with(|| reader.next_block(Duration::from_secs(60))).flatten().next().unwrap();
        assert_eq!(block.first, 1 + 3 * number);
        spool.reached("a", block.last + 1);
    }
    spool.stop();
    assert_eq!(spool.figures().removed_unread, 0);
}

#[test]
fn a_full_spool_waits_for_a_sink_only_so_long() {
    let folder = tempfile::tempdir().unwrap();
    let begun = std::time::Instant::now();
    let spool = crowded(&settings(folder.path()), Duration::from_millis(300));
    while spool.queue.numbers().is_some() {
        std::thread::yield_now();
    }
    // One wait, not one for each segment.
    let took = begun.elapsed();
    spool.stop();
    assert!(took >= Duration::from_millis(300), "{took:?}");
    assert!(spool.figures().removed_unread > 0);
}
