//! The operator's page in a real browser, with real servers behind it. `SCREENSHOTS=FOLDER` keeps a picture of each view.

mod browser;
mod world;

use net::client::Target;
use net::query::{self, Client, Limits};
use serde_json::{Value, json};
use wire::auth::Credential;

use crate::support::{Front, SOON, all, http, http_send, http_with, until, value};
use browser::Browser;
use world::{ADMIN_KEY, OPERATE_KEY, VIEW_KEY, World};

/// Whether the program has the page: it is embedded if it was built before.
async fn has_page(front: &Front) -> bool {
    let (status, shell) = http(&front.admin, "/").await;
    assert_eq!(status, 200, "{shell}");
    let built = shell.contains("<div id=\"app\">");
    if !built {
        lab::skip("the program has no page: `./dev ui` builds it, then build the program again");
    }
    built
}

async fn log_in(browser: &Browser, front: &Front, key: &str, role: &str) {
    browser.open(&format!("http://{}/", front.admin)).await;
    browser.write("#key", key).await;
    browser.click("#log-in").await;
    browser.wait(&format!("document.getElementById('role')?.textContent === '{role}'")).await;
}

/// Goes to a view, and waits until an expression says that it has its data.
async fn view(browser: &Browser, hash: &str, is_there: &str) {
    browser.value(&format!("location.hash = '{hash}'")).await;
    let name = hash.trim_start_matches("#/").split(['/', '?']).next().unwrap();
    browser.wait(&format!("document.getElementById('view-{name}')")).await;
    browser.wait(is_there).await;
}

/// A function of JavaScript: the row of a table with a text.
const ROW_WITH: &str = "(table, text) => [...document.querySelectorAll('#table-' + table + ' tbody tr')]\
                        .find(row => row.innerText.includes(text))";

async fn has_row(browser: &Browser, table: &str, text: &str) {
    browser.wait(&format!("({})({}, {})", ROW_WITH, Value::from(table), Value::from(text))).await;
}

#[tokio::test]
async fn an_operator_sees_and_acts_in_a_browser() {
    let world = World::start().await;
    if !has_page(&world.front).await {
        return world.end().await;
    }
    let Some(browser) = Browser::start().await else { return world.end().await };
    a_wrong_key_is_refused(&browser, &world).await;
    log_in(&browser, &world.front, ADMIN_KEY, "admin").await;
    let transaction = world.idle_transaction().await;
    every_view_has_its_data(&browser).await;
    a_digest_is_understood_and_killed(&browser, &world).await;
    drop(transaction);
    sessions_are_killed_by_a_filter(&browser, &world).await;
    sessions_are_moved(&browser, &world).await;
    another_plan_is_seen(&browser, &world).await;
    the_primary_is_moved(&browser, &world).await;
    the_timeline_has_what_was_done(&browser, &world).await;
    keys_and_narrow_screens_work(&browser).await;
    nothing_comes_from_elsewhere(&browser, &world).await;
    who_only_looks_changes_nothing(&browser, &world).await;
    browser.end().await;
    world.end().await;
}

/// With two clusters the view of digests names those of each digest, and shows one cluster alone.
#[tokio::test]
async fn digests_of_two_clusters_are_told_apart_in_a_browser() {
    let front = crate::digests::two_clusters(&format!("key = \"{ADMIN_KEY}\"")).await;
    if !has_page(&front).await {
        return;
    }
    let Some(browser) = Browser::start().await else { return };
    log_in(&browser, &front, ADMIN_KEY, "admin").await;
    view(&browser, "#/digests", "true").await;
    let heads = "[...document.querySelectorAll('#table-digests th')].map(head => head.innerText.toLowerCase().trim())";
    let cell = |text: &str, head: &str| {
        let at = format!("{heads}.findIndex(head => head.startsWith('{head}'))");
        format!("({ROW_WITH})('digests', '{text}')?.cells[{at}].innerText")
    };
    browser.wait(&format!("{} === 'main, other'", cell("on_both_clusters", "clusters"))).await;
    browser.wait(&format!("{} === 'other'", cell("on_other_only", "clusters"))).await;
    browser.wait(&format!("{} === '5'", cell("on_both_clusters", "statements"))).await;
    // The choice is in the address, so that it can be sent as a link.
    let choose = "(() => { const choice = [...document.querySelectorAll('.choice')].find(choice => choice.innerText.includes('cluster')) \
                  .querySelector('select'); choice.value = 'main'; choice.dispatchEvent(new Event('change', { bubbles: true })) })()";
    browser.value(choose).await;
    browser.wait("location.hash === '#/digests?cluster=main'").await;
    browser.wait(&format!("{} === '3'", cell("on_both_clusters", "statements"))).await;
    browser.wait(&format!("!({ROW_WITH})('digests', 'on_other_only')")).await;
    browser.value(&format!("({ROW_WITH})('digests', 'on_both_clusters').click()")).await;
    browser.shows("Cluster: main, and the figures are of this one.").await;
    // A kill ends statements of the cluster that is shown.
    browser.click("#kill-digest").await;
    browser
        .wait(
            "/digest=[0-9a-f]{16} and cluster=main and state=running/.test(document.querySelector('dialog').innerText)",
        )
        .await;
    browser.end().await;
}

async fn a_wrong_key_is_refused(browser: &Browser, world: &World) {
    browser.open(&format!("http://{}/", world.front.admin)).await;
    browser.write("#key", "guess").await;
    browser.click("#log-in").await;
    browser.shows("this is not the key").await;
    assert_eq!(browser.value("Boolean(document.querySelector('nav'))").await, false, "there is no page behind it");
    browser.picture("login").await;
}

async fn every_view_has_its_data(browser: &Browser) {
    let paint = browser.value("performance.getEntriesByName('first-contentful-paint')[0]?.startTime").await;
    eprintln!("first paint after {paint} ms");
    assert!(paint.as_f64().is_some_and(|ms| ms < 2_000.0), "{paint}");
    view(browser, "#/now", "document.querySelectorAll('.chart path').length > 8").await;
    has_row(browser, "now", "db1").await;
    browser.wait("Number(document.querySelector('.figure b').textContent) > 0").await;
    // The history has its first step after ten seconds.
    browser.wait("document.querySelector('#history .legend b')?.textContent !== '–'").await;
    listeners_have_their_lines(browser).await;
    browser.value("scrollTo(0, 0)").await;
    browser.picture("now").await;
    view(browser, "#/digests", "document.querySelectorAll('.bubble').length > 4").await;
    has_row(browser, "digests", "SELECT COUNT(*), SUM(price) FROM app.items").await;
    browser.picture("digests").await;
    view(browser, "#/sessions?order=transaction", "true").await;
    has_row(browser, "sessions", "idle in transaction").await;
    bytes_and_waits_are_shown(browser).await;
    browser.picture("sessions").await;
    view(browser, "#/servers", "document.querySelectorAll('.topology .server').length === 2").await;
    has_row(browser, "servers-main", "db2").await;
    browser.wait("document.querySelector('.topology').textContent.includes('lag ')").await;
    browser.picture("servers").await;
    view(browser, "#/errors", "true").await;
    has_row(browser, "codes", "1062").await;
    has_row(browser, "server-errors", "db1").await;
    has_row(browser, "errors", "INSERT INTO app.items").await;
    browser.wait("document.querySelector('.lines code')?.textContent.includes('app.items')").await;
    browser.picture("errors").await;
    view(browser, "#/rules", "true").await;
    has_row(browser, "rules", "no-full-delete").await;
    browser.wait(&format!("Number(({})('rules', 'no-full-delete').cells[5].textContent) > 0", ROW_WITH)).await;
    browser.picture("rules").await;
    view(browser, "#/cache", "true").await;
    has_row(browser, "cache-rules", "pages").await;
    has_row(browser, "cache-digests", "SELECT body FROM app.pages").await;
    has_row(browser, "candidates", "SELECT").await;
    browser.picture("cache").await;
    view(browser, "#/workers", "document.querySelectorAll('#table-workers .bar').length === 2").await;
    browser.picture("workers").await;
    view(browser, "#/log?where=kind%3Dquery", "true").await;
    has_row(browser, "log", "SELECT name, price FROM app.items").await;
    browser.picture("log").await;
}

/// The charts of listeners have a line of each, with a figure.
async fn listeners_have_their_lines(browser: &Browser) {
    for (title, line) in [
        ("Queries of listeners a second", "app"),
        ("Sessions of listeners", "app"),
        ("Bytes of listeners a second", "app in"),
        ("Bytes of listeners a second", "app out"),
    ] {
        let legend = "chart.querySelector('.legend')?.textContent";
        let chart =
            format!("[...document.querySelectorAll('.chart')].find(chart => chart.textContent.includes('{title}'))");
        browser.wait(&format!("(chart => chart && /{line}\\D*[1-9]/.test({legend}))({chart})")).await;
    }
}

/// Each session has the bytes of its client, on a screen that is wide enough, and its waits.
async fn bytes_and_waits_are_shown(browser: &Browser) {
    browser.resize(1600, 860).await;
    let heads = "[...document.querySelectorAll('#table-sessions th')].map(head => head.innerText.toLowerCase().trim())";
    let cell = |head: &str| {
        let at = format!("{heads}.findIndex(head => head.startsWith('{head}'))");
        format!("({ROW_WITH})('sessions', 'app').cells[{at}].innerText")
    };
    for head in ["in", "out"] {
        browser.wait(&format!("/^[1-9].* (B|KiB|MiB)$/.test({})", cell(head))).await;
    }
    browser.wait(&format!("{heads}.some(head => head.startsWith('waited'))")).await;
    let waited = "[...document.querySelectorAll('#table-sessions td span')].some(span => /[1-9]\\d* statements? waited for a \
                  connection, a limit or a server/.test(span.title))";
    browser.wait(waited).await;
    browser.resize(1280, 860).await;
}

/// An index is dropped behind a mark: the digest is slower, and has another plan.
async fn another_plan_is_seen(browser: &Browser, world: &World) {
    world.let_monitor_read().await;
    let mut client = world.front.client().await;
    let ask = "SELECT SLEEP(0) AS planned, id FROM app.planned WHERE k = 'k7'";
    for _ in 0..30 {
        all(&mut client, ask).await;
    }
    client.ping().await.unwrap();
    let (_, page) = http_with(&world.front.admin, "GET", "/api/v1/digests?limit=1000", Some(VIEW_KEY)).await;
    let page: Value = serde_json::from_str(&page).unwrap();
    let text = "SELECT SLEEP(?) AS planned, id FROM app.planned WHERE k = ?";
    let digest = page["digests"].as_array().unwrap().iter().find(|digest| digest["text"] == text).unwrap();
    let explained = format!("/api/v1/digests/{}/explain", digest["hash"].as_str().unwrap());
    until("the usual plan", async || {
        let page = http_with(&world.front.admin, "GET", &explained, Some(VIEW_KEY)).await.1;
        page.contains("by_k").then_some(())
    })
    .await;
    let order = json!({ "text": "drop index" }).to_string();
    let (_, mark) = http_send(&world.front.admin, "POST", "/api/v1/marks", Some(OPERATE_KEY), &order).await;
    let mark: Value = serde_json::from_str(&mark).unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    all(&mut client, "DROP INDEX by_k ON app.planned").await;
    world.in_sync().await;
    for _ in 0..30 {
        all(&mut client, &ask.replace("SLEEP(0)", "SLEEP(0.12)")).await;
    }
    client.ping().await.unwrap();
    let row = format!("({ROW_WITH})('regressions', 'FROM app.planned WHERE k = ?')");
    let (mut shown, view_of) = (false, format!("#/digests?since=mark-{}", mark["id"]));
    // The panel looks once a minute; to come again is a look.
    for _ in 0..30 {
        view(browser, "#/now", "true").await;
        view(browser, &view_of, "true").await;
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        shown = browser.value(&format!("Boolean({row}?.innerText.includes('plan changed'))")).await == true;
        if shown {
            break;
        }
    }
    assert!(shown, "{}", browser.value(&format!("{row}?.innerText")).await);
    let title = browser.value(&format!("{row}.querySelector('span[title]').title")).await;
    let title = title.as_str().unwrap();
    let (before, now) = title.split_once("now (db2):").unwrap_or_else(|| panic!("{title}"));
    assert!(before.starts_with("before (db2):") && before.contains("key=by_k") && !now.contains("key=by_k"), "{title}");
    assert!(!title.contains("k7"), "a plan has no literal: {title}");
    browser.picture("plan-changed").await;
}

async fn a_digest_is_understood_and_killed(browser: &Browser, world: &World) {
    let long = world.long("marker_running").await;
    view(browser, "#/now", "true").await;
    has_row(browser, "running", "marker_running").await;
    view(browser, "#/sessions?where=form~marker_running", "true").await;
    has_row(browser, "sessions", "marker_running").await;
    browser.click("#table-sessions td.wide a").await;
    // Its first statement is counted when it ends; until then the page knows it from the sessions.
    browser.wait("document.querySelector('.one pre')?.textContent.includes('marker_running')").await;
    browser.shows("1 session now: app from 127.0.0.1.").await;
    browser.click("#kill-digest").await;
    browser.shows("1 statement would end:").await;
    browser.click("dialog #do").await;
    browser.shows("1 ended.").await;
    browser.click("dialog #close").await;
    until("what ran it has ended", async || long.is_finished().then_some(())).await;
    let long = world.long("marker_digest").await;
    view(browser, "#/digests", "document.querySelectorAll('.bubble').length > 4").await;
    // There is no history from before.
    browser.shows("The history has nothing from before that moment.").await;
    browser.value(&format!("({ROW_WITH})('digests', 'SELECT COUNT(*), SUM(price) FROM app.items').click()")).await;
    browser.click("#explain").await;
    browser.wait("[...document.querySelectorAll('.steps td')].some(cell => cell.textContent === 'items')").await;
    browser.click("#rule-refuse").await;
    browser.wait("document.getElementById('rule-text').textContent.includes('refuse = ')").await;
    browser.click("#rule-route").await;
    browser.wait("document.getElementById('rule-text').textContent.includes('route = ')").await;
    browser.click("#rule-cache").await;
    browser.wait("document.getElementById('rule-text').textContent.includes('cache = ')").await;
    browser.value("scrollTo(0, 0)").await;
    browser.picture("digest").await;
    view(browser, "#/sessions?where=form~marker_digest", "true").await;
    has_row(browser, "sessions", "marker_digest").await;
    browser.click("#table-sessions td .acts button").await;
    browser.click("dialog #do").await;
    browser.shows("It has ended.").await;
    browser.click("dialog #close").await;
    until("the statement has ended", async || long.is_finished().then_some(())).await;
}

async fn sessions_are_killed_by_a_filter(browser: &Browser, world: &World) {
    let mut long = Vec::new();
    for _ in 0..3 {
        long.push(world.long("marker_filter").await);
    }
    let spared = world.long("marker_spared").await;
    view(browser, "#/sessions", "true").await;
    browser.press("/").await;
    browser.write("#filter", "form~marker_filter and state=running").await;
    browser.wait("document.querySelectorAll('#table-sessions tbody tr').length === 3").await;
    browser.click("#kill-all").await;
    browser.shows("3 sessions would end:").await;
    assert!(!long.iter().any(|reply| reply.is_finished()), "a look kills nothing");
    browser.picture("kill").await;
    browser.click("dialog #do").await;
    browser.shows("3 ended.").await;
    browser.click("dialog #close").await;
    until("all three have ended", async || long.iter().all(|reply| reply.is_finished()).then_some(())).await;
    assert!(!spared.is_finished(), "another statement goes on");
    let order = json!({ "where": "form~marker_spared" }).to_string();
    let (status, page) = http_send(&world.front.admin, "PUT", "/api/v1/sessions/kill", Some(OPERATE_KEY), &order).await;
    assert_eq!(status, 200, "{page}");
    spared.await.unwrap();
}

async fn primary(world: &World) -> Value {
    let (_, page) = http_with(&world.front.admin, "GET", "/api/v1/clusters/main", Some(VIEW_KEY)).await;
    serde_json::from_str::<Value>(&page).unwrap()["primary"].take()
}

/// The sessions of all but one worker leave; then that one gives some away.
async fn sessions_are_moved(browser: &Browser, world: &World) {
    let mut clients = Vec::new();
    for _ in 0..12 {
        let mut client = world.front.client().await;
        let id: u64 = value(&mut client, "SELECT CONNECTION_ID()").await.parse().unwrap();
        clients.push((id, client));
    }
    let (_, page) = http_with(&world.front.admin, "GET", "/api/v1/sessions?limit=1000", Some(VIEW_KEY)).await;
    let page: Value = serde_json::from_str(&page).unwrap();
    let worker = |id: u64| {
        let all = page["sessions"].as_array().unwrap();
        all.iter().find(|session| session["id"] == json!(id)).unwrap()["worker"].as_u64().unwrap()
    };
    let from = worker(clients[0].0);
    clients.retain(|(id, _)| worker(*id) == from);
    view(browser, "#/workers", "document.querySelectorAll('#table-workers .bar').length === 2").await;
    browser.click(&format!("#relieve-{from}")).await;
    browser.shows(&format!(" would move to worker {}.", 1 - from)).await;
    browser.picture("relieve").await;
    browser.click("dialog #do").await;
    browser.shows(&format!(" sessions moved to worker {}.", 1 - from)).await;
    browser.click("dialog #close").await;
    for (_, client) in &mut clients {
        assert_eq!(value(client, "SELECT 7").await, "7");
    }
}

async fn the_primary_is_moved(browser: &Browser, world: &World) {
    view(browser, "#/servers", "document.querySelectorAll('.topology .server').length === 2").await;
    browser.click("#drain-db2").await;
    browser.shows("db2 gets no new work").await;
    browser.click("dialog #close").await;
    browser.click("#switchover-main").await;
    browser.wait("document.querySelectorAll('.preview li').length > 2").await;
    browser.picture("switchover").await;
    assert_eq!(primary(world).await, "db1", "a look moves nothing");
    browser.click("dialog #do").await;
    browser.wait("document.querySelector('.result')?.textContent.includes('primary db2')").await;
    assert_eq!(primary(world).await, "db2");
    browser.click("dialog #close").await;
}

async fn console(world: &World) -> Client {
    let target = Target::plain(world.front.address_of("console").parse().unwrap(), SOON);
    let login = query::login("admin", Credential::password(ADMIN_KEY));
    Client::connect(&target, login, Limits { timeout: SOON, ..Limits::default() }).await.unwrap()
}

async fn the_timeline_has_what_was_done(browser: &Browser, world: &World) {
    view(browser, "#/timeline", "document.getElementById('timeline').textContent.includes('/switchover')").await;
    browser.write("#mark", "deploy 7").await;
    browser.click("main form button").await;
    browser.wait("document.getElementById('timeline').textContent.includes('deploy 7')").await;
    // Each order says by which way it came.
    let mut sql = console(world).await;
    all(&mut sql, "MARK 'from the console' BY 'a dba'").await;
    let line = |parts: [&str; 2]| {
        let [one, other] = parts.map(|part| format!("line.textContent.includes('{part}')"));
        format!("[...document.querySelectorAll('#timeline li')].some(line => {one} && {other})")
    };
    browser.wait(&line(["admin at 127.0.0.1", "by console"])).await;
    browser.wait(&line(["by api", "/switchover"])).await;
    for text in ["/sessions/kill", "Sqluice", "promoted", "primary is db2", "db1 is replica, up"] {
        browser.wait(&format!("document.getElementById('timeline').textContent.includes('{text}')")).await;
    }
    browser.picture("timeline").await;
    let log = world.front.log();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("audit: ")).collect();
    for (part, result) in [
        ("login to the page", "401"),
        ("login to the page", "200"),
        ("PUT /api/v1/sessions/kill", "200"),
        ("PUT /api/v1/workers/", "200"),
        ("PUT /api/v1/clusters/main/switchover", "200"),
        ("POST /api/v1/marks", "200"),
    ] {
        let found = lines.iter().any(|line| line.contains(part) && line.contains(result) && line.contains("127.0.0.1"));
        assert!(found, "no line of {part} with {result} in {lines:#?}");
    }
    for key in [ADMIN_KEY, VIEW_KEY, "guess"] {
        assert!(!log.contains(key), "the log has a key");
    }
}

async fn keys_and_narrow_screens_work(browser: &Browser) {
    browser.press("gw").await;
    browser.wait("location.hash === '#/workers'").await;
    browser.press("?").await;
    browser.shows("dark, light, as the system").await;
    browser.click("dialog footer button").await;
    browser.press("gn").await;
    browser.wait("location.hash === '#/now'").await;
    browser.resize(360, 800).await;
    for name in ["now", "digests", "sessions", "servers", "errors", "rules", "cache", "workers", "timeline", "log"] {
        view(browser, &format!("#/{name}"), "document.querySelector('main').children.length > 0").await;
        let too_wide = browser.value("document.documentElement.scrollWidth - innerWidth").await;
        assert!(too_wide.as_i64().is_some_and(|pixels| pixels <= 0), "{name} is too wide by {too_wide}");
    }
    view(browser, "#/now", "document.querySelectorAll('.chart path').length > 8").await;
    browser.picture("narrow").await;
    browser.resize(1280, 860).await;
    // Dark, light, as the system.
    browser.press("t").await;
    browser.wait("document.documentElement.dataset.theme === 'dark'").await;
    browser.picture("dark").await;
    browser.press("t").await;
    browser.wait("document.documentElement.dataset.theme === 'light'").await;
    browser.press("t").await;
}

async fn nothing_comes_from_elsewhere(browser: &Browser, world: &World) {
    let names = browser.value("performance.getEntriesByType('resource').map(entry => entry.name)").await;
    let own = format!("http://{}/", world.front.admin);
    let names = names.as_array().unwrap();
    assert!(names.len() > 5 && names.iter().all(|name| name.as_str().unwrap().starts_with(&own)), "{names:?}");
    let complaints = browser.complaints().await;
    // A browser complains of a refused login; of nothing else.
    let others: Vec<&String> = complaints.iter().filter(|line| !line.contains("/api/v1/login")).collect();
    assert!(others.is_empty(), "{others:?}");
    let inline = "(() => { try { const script = document.createElement('script'); script.text = 'window.inline = 1'; \
                  document.body.append(script) } catch {} return window.inline })()";
    let inline = browser.value(inline).await;
    assert_eq!(inline, Value::Null, "the policy lets no other script run");
}

async fn who_only_looks_changes_nothing(browser: &Browser, world: &World) {
    browser.click("#log-out").await;
    browser.wait("document.getElementById('key')").await;
    log_in(browser, &world.front, VIEW_KEY, "view").await;
    view(browser, "#/sessions", "true").await;
    has_row(browser, "sessions", "app").await;
    assert_eq!(browser.value("document.getElementById('kill-all').disabled").await, true);
    assert_eq!(browser.value("document.querySelectorAll('td .acts button:not(:disabled)').length").await, 0);
    // Whatever a script of the page tries, the API refuses.
    let put = |token: &str| {
        format!(
            "fetch('api/v1/sessions/kill', {{ method: 'PUT', headers: {{ 'x-sqluice-token': {token} }}, \
             body: JSON.stringify({{ where: 'user=app' }}) }}).then(async reply => reply.status + ' ' + await reply.text())"
        )
    };
    let without = browser.promised(&put("'x'")).await;
    assert!(without.as_str().is_some_and(|text| text.starts_with("403 a change by cookie needs")), "{without}");
    let own = "(await fetch('api/v1/login').then(reply => reply.json())).token";
    let with = browser.promised(&format!("(async () => {})()", put(own))).await;
    let words = "403 this needs the role operate; your key has the role view";
    assert!(with.as_str().is_some_and(|text| text.starts_with(words)), "{with}");
    assert_eq!(browser.value("document.cookie").await, "", "scripts do not see the login");
    until("the refusal is in the log", async || {
        world
            .front
            .log()
            .lines()
            .any(|line| line.contains("audit: ") && line.contains("403") && line.contains("view"))
            .then_some(())
    })
    .await;
}
