use super::*;

fn loads(busy: &[f64]) -> Vec<WorkerLoad> {
    busy.iter().map(|busy| WorkerLoad { busy: *busy, sessions: 10 }).collect()
}

/// The reliefs of each second, with the same loads all the while.
fn seconds(balance: &mut Balance, begin: Instant, seconds: u64, busy: &[f64]) -> Vec<(u64, Relief)> {
    let mut found = Vec::new();
    for second in 0..seconds {
        let now = begin + Duration::from_secs(second);
        found.extend(balance.decide(now, 0.7, &loads(busy)).into_iter().map(|relief| (second, relief)));
    }
    found
}

#[test]
fn a_worker_that_stays_busy_gives_half_of_the_difference() {
    let begin = Instant::now();
    let found = seconds(&mut Balance::default(), begin, 4, &[1.0, 0.2]);
    assert_eq!(found, [(2, Relief { from: 0, to: 1, share: 0.4, of: Of::Load })]);
    assert_eq!(seconds(&mut Balance::default(), begin, 100, &[0.69, 0.0]), [], "not busy");
    assert_eq!(seconds(&mut Balance::default(), begin, 100, &[1.0, 0.77]), [], "both are");
    assert_eq!(seconds(&mut Balance::default(), begin, 100, &[1.0]), [], "one worker");
    let mut balance = Balance::default();
    for second in 0..100 {
        let busy = if second % 3 == 2 { 0.5 } else { 1.0 };
        assert_eq!(balance.decide(begin, 0.7, &loads(&[busy, 0.0])), [], "a moment only");
    }
    let mut balance = Balance::default();
    let one = [WorkerLoad { busy: 1.0, sessions: 1 }, WorkerLoad { busy: 0.0, sessions: 0 }];
    assert!((0..9).all(|_| balance.decide(begin, 0.7, &one).is_empty()), "the load would only change its place");
}

#[test]
fn several_workers_are_relieved_at_once_each_by_another() {
    let found = seconds(&mut Balance::default(), Instant::now(), 3, &[0.1, 0.9, 0.5, 1.0, 0.0]);
    let pairs: Vec<_> = found.iter().map(|(_, relief)| (relief.from, relief.to)).collect();
    assert_eq!(pairs, [(3, 4), (1, 0)]);
}

#[test]
fn both_rest_after_a_relief_and_longer_while_it_changes_nothing() {
    let begin = Instant::now();
    let mut balance = Balance::default();
    let found = seconds(&mut balance, begin, 200, &[1.0, 0.0]);
    let at: Vec<u64> = found.iter().map(|(second, _)| *second).collect();
    assert_eq!(at, [2, 7, 17, 37, 77, 157], "5, 10, 20, 40 and 80 seconds");
    // It has helped: the next one comes soon.
    let later = begin + Duration::from_secs(300);
    let found = seconds(&mut balance, later, 8, &[0.9, 0.0]);
    assert_eq!(found.iter().map(|(second, _)| *second).collect::<Vec<_>>(), [0, 5]);
}

#[test]
fn an_operator_relieves_a_worker_below_the_threshold_and_an_idle_one_by_its_sessions() {
    let load = |busy, sessions| WorkerLoad { busy, sessions };
    let relief = on_demand(0, &[load(0.4, 3), load(0.3, 1), load(0.2, 9)]);
    assert_eq!(relief, Some(Relief { from: 0, to: 2, share: 0.25, of: Of::Load }));
    let relief = on_demand(1, &[load(0.0, 4), load(0.01, 10)]);
    assert_eq!(relief, Some(Relief { from: 1, to: 0, share: 0.3, of: Of::Sessions }));
    for (from, loads) in [
        (0, vec![load(0.0, 5), load(0.0, 4)]),
        (0, vec![load(0.9, 0), load(0.1, 0)]),
        (0, vec![load(1.0, 9)]),
        (2, vec![load(1.0, 9), load(0.0, 0)]),
    ] {
        assert_eq!(on_demand(from, &loads), None, "{loads:?}");
    }
}

#[test]
fn the_costliest_sessions_that_fit_move() {
    assert_eq!(choose(vec![(1, 25), (2, 25), (3, 25), (4, 25)], 0.5), [1, 2]);
    assert_eq!(choose(vec![(1, 60), (2, 5), (3, 30), (4, 5)], 0.5), [3, 2, 4], "the load of one stays, the others go");
    assert_eq!(choose(vec![(1, 95), (2, 5)], 0.04), [] as [u32; 0]);
    assert_eq!(choose(vec![(7, 100)], 0.5), [] as [u32; 0]);
    assert_eq!(choose(Vec::new(), 0.5), [] as [u32; 0]);
    let many = (0..10_000).map(|session| (session, 1)).collect();
    assert_eq!(choose(many, 0.5).len(), SESSIONS_MAX);
}

/// Whatever the loads of the sessions: a relief never makes the larger of both workers' loads larger.
#[test]
fn a_relief_never_changes_sides() {
    let mut random = 1_u64;
    let mut next = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    for _ in 0..2_000 {
        let costs: Vec<(u32, u64)> = (0..1 + next(12) as u32).map(|session| (session, 1 + next(100))).collect();
        let own: u64 = costs.iter().map(|(_, cost)| cost).sum();
        let other = next(own);
        let share = (own - other) as f64 / 2.0 / own as f64;
        let chosen = choose(costs.clone(), share);
        let moved: u64 = costs.iter().filter(|(session, _)| chosen.contains(session)).map(|(_, cost)| cost).sum();
        assert!(other + moved <= own - moved, "{costs:?}, {other} there: {moved} moved");
    }
}
