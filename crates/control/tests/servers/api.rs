//! The API's answers about clusters, and to requests that cannot be met.

use serde_json::{Value, json};

use crate::watch::Watch;
use crate::{SOON, cluster, families, settled};

#[test]
fn clusters_are_reported_and_mistakes_are_answered_in_words() {
    for family in families() {
        let cluster = cluster(family);
        let watch = Watch::start(&cluster, "promotion = { lease = \"majority\" }");
        watch.until("all is well", SOON, settled);
        watch.until_page("/readyz", |page| page.contains("primary s1"));

        // The lease takes a few intervals.
        let deadline = std::time::Instant::now() + SOON;
        let page = loop {
            let (status, page) = watch.api("GET", "/clusters", "");
            assert_eq!(status, 200, "{page}");
            if page["clusters"][0]["lease"]["held"] == json!(true) {
                break page;
            }
            assert!(std::time::Instant::now() < deadline, "no lease: {page}");
        };
        let main = &page["clusters"][0];
        assert_eq!((&main["name"], &main["primary"], &main["failover"]), (&json!("main"), &json!("s1"), &json!("off")));
        let lease = main["lease"]["text"].as_str().unwrap();
        assert!(lease.starts_with("2 of 3 locks are needed"), "{lease}");
        let servers = main["servers"].as_array().unwrap();
        assert_eq!(servers.len(), 3);
        assert_eq!((&servers[0]["role"], &servers[0]["read_only"]), (&json!("primary"), &json!(false)));
        assert_eq!((&servers[1]["role"], &servers[1]["read_only"]), (&json!("replica"), &json!(true)));
        assert!(servers.iter().all(|server| !server["gtid_executed"].as_str().unwrap().is_empty()), "{main}");
        let channel = &servers[1]["channels"][0];
        assert_eq!(channel["source"], json!(cluster.server(0).address().to_string()));
        assert_eq!((&channel["receiver"], &channel["applier"]), (&json!("running"), &json!("running")));
        assert_eq!(watch.api("GET", "/clusters/main", "").1["name"], "main");
        assert_eq!(watch.api("GET", "/clusters/main/journal?limit=5", ""), (200, json!({ "journal": [] })));

        for (method, path, body, status, words) in [
            ("GET", "/clusters/other", "", 404, "there is no cluster \"other\""),
            ("PUT", "/clusters/other/switchover", "", 404, "there is no cluster"),
            ("PUT", "/clusters/main/promote", "", 404, "nothing is called \"promote\" here"),
            ("PUT", "/clusters/main/servers/s1/reboot", "", 404, "nothing is called"),
            ("PUT", "/clusters/main/servers/s9/drain", "", 404, "cluster main has no server \"s9\""),
            ("PUT", "/clusters/main/switchover", "{\"to\": \"s9\"}", 404, "cluster main has no server \"s9\""),
            ("PUT", "/clusters/main/switchover", "{\"too\": \"s2\"}", 400, "no key \"too\"; there are: to, dry_run"),
            ("PUT", "/clusters/main/switchover", "what", 400, "is not JSON"),
            ("PUT", "/clusters/main/primary", "", 400, "say which"),
            ("GET", "/clusters/main/journal?from=7", "", 400, "limit and run only"),
        ] {
            let (answered, page) = watch.api(method, path, body);
            let said = page["error"].as_str().unwrap_or_default();
            assert!(answered == status && said.contains(words), "{method} {path} {body}: {answered} {page}");
        }
        assert_eq!(watch.api("GET", "/clusters/other", "").1["known"], json!(["main"]));
        let (_, page) = watch.api("PUT", "/clusters/main/servers/s9/drain", "");
        assert_eq!(page["known"], json!(["s1", "s2", "s3"]));
        let (status, page) = watch.api("PUT", "/clusters/main/switchover", "{\"to\": \"s1\"}");
        assert!(status == 409 && page["error"] != Value::Null, "s1 is the primary already: {status} {page}");
    }
}

#[test]
fn of_two_processes_one_holds_the_lease_and_the_other_takes_it_over() {
    let cluster = cluster(families()[0]);
    let promotion = "promotion = { lease = \"majority\", lease_s = 1 }";
    let held = |watch: &Watch| watch.api("GET", "/clusters/main", "").1["lease"]["held"] == json!(true);
    let first = Watch::start(&cluster, promotion);
    let deadline = std::time::Instant::now() + SOON;
    while !held(&first) {
        assert!(std::time::Instant::now() < deadline, "nobody else is there, and the lease is not held");
    }
    let second = Watch::start(&cluster, promotion);
    second.until("all is well", SOON, settled);
    let lease = |watch: &Watch| watch.api("GET", "/clusters/main", "").1["lease"]["text"].to_string();
    while !lease(&second).contains("held by another process on s1") {
        assert!(std::time::Instant::now() < deadline, "{}", lease(&second));
    }
    assert!(held(&first) && !held(&second));
    // A minority that dies takes nothing away.
    cluster.server(2).kill9();
    first.until("s3 is down", SOON, |view| view.servers[2].health == facts::view::Health::Down);
    assert!(held(&first) && !held(&second));
    let (status, page) = first.api("GET", "/changes?limit=50", "");
    let changes = page["changes"].as_array().unwrap();
    let is_that =
        |change: &&Value| change["server"] == "s3" && change["text"].as_str().unwrap().contains("s3 is replica, down");
    let down = changes.iter().find(is_that).unwrap_or_else(|| panic!("{status} {page:#}"));
    assert_eq!((&down["kind"], &down["cluster"], &down["severity"]), (&json!("state"), &json!("main"), &json!("warn")));
    let Watch { control, .. } = first;
    control.shutdown();
    let deadline = std::time::Instant::now() + SOON;
    while !held(&second) {
        assert!(std::time::Instant::now() < deadline, "{}", lease(&second));
    }
}
