//! A turn: pages are compared, visitors come while the processes' clocks are read, and pages are compared again.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::crowd::{Crowd, Tally, Workers};
use super::figures::Turn;
use super::mode::Mode;
use super::pages;
use super::site::{POSTS_BEHIND, Site, Worker};
use super::visitor::Mix;
use super::{Plan, WARM_UP};
use crate::contender::Running;
use crate::http::{self, Ask, Cookies};
use crate::watch::KEY;
use crate::world::{DATABASE, World};
use crate::{machine, stop, system};

/// Longest until what was written around Sqluice is seen, where the cache follows the servers.
const AROUND_LIMIT: Duration = Duration::from_secs(20);

/// All that a turn needs.
pub(super) struct Turns<'a> {
    pub(super) world: &'a World,
    pub(super) site: &'a Site,
    pub(super) plan: &'a Plan,
    /// PHP without Sqluice, whose pages are right.
    pub(super) direct: &'a [Worker],
    /// Turns before this one.
    pub(super) number: u32,
}

/// Readings at the beginning and the end of the measured time.
#[derive(Default)]
struct Reading {
    server_ns: u64,
    php_ns: u64,
    proxy_ns: u64,
    questions: u64,
    cache: Counts,
}

/// Outcomes of the statements that the cache was asked for.
#[derive(Default)]
struct Counts {
    hits: u64,
    misses: u64,
    refused: BTreeMap<String, u64>,
}

impl Turns<'_> {
    /// Lets visitors come this way.
    ///
    /// # Errors
    /// Something does not start, or a page is wrong.
    pub(super) fn take(&self, mix: Mix, mode: Mode) -> anyhow::Result<Turn> {
        stop::check()?;
        let running = mode.start(self.plan, self.world)?;
        let own = match &running {
            Some(running) => self.site.serve(running.address, self.plan.php)?,
            None => Vec::new(),
        };
        let workers = if own.is_empty() { self.direct } else { &own };
        let (right, through) = (pool(self.direct), pool(workers));
        let admin = running.as_ref().map(Running::api).transpose()?;

        let mut compared = pages::compare(&right, &through, self.site.posts)?;
        let crowd = Crowd {
            workers: &through,
            visitors: self.plan.visitors,
            mix,
            posts: self.site.posts,
            turn: self.number,
            warm_up: WARM_UP,
            measured: self.plan.measured,
        };
        let read = || self.read(workers, running.as_ref(), admin);
        let (mut begin, mut end) = (Reading::default(), Reading::default());
        let tally = crowd.run(|| read().map(|reading| begin = reading), || read().map(|reading| end = reading))?;
        compared += pages::compare(&right, &through, self.site.posts).context("behind the visitors")?;
        let around = self.around(mode, &through, admin)?;
        if tally.pages == 0 || tally.reported == 0 {
            bail!("nobody got a page");
        }
        Ok(self.turn(mix, mode, &tally, &begin, &end, compared, around))
    }

    #[allow(clippy::too_many_arguments)] // All of one turn.
    fn turn(
        &self,
        mix: Mix,
        mode: Mode,
        tally: &Tally,
        begin: &Reading,
        end: &Reading,
        compared: u64,
        around: Option<Duration>,
    ) -> Turn {
        let (pages, reported, seconds) = (tally.pages as f64, tally.reported as f64, self.plan.measured.as_secs_f64());
        let each = |begin: u64, end: u64| end.saturating_sub(begin) as f64 / pages;
        let share = |begin: u64, end: u64| end.saturating_sub(begin) as f64 / 1e9 / seconds / machine::cores() as f64;
        let hits = end.cache.hits.saturating_sub(begin.cache.hits);
        let not: BTreeMap<String, f64> = end
            .cache
            .refused
            .iter()
            .map(|(why, count)| (why, count - begin.cache.refused.get(why).copied().unwrap_or(0).min(*count)))
            .chain([(&"miss".to_owned(), end.cache.misses - begin.cache.misses)])
            .filter(|(_, count)| *count > 0)
            .map(|(why, count)| (why.clone(), count as f64 / pages))
            .collect();
        let asked = hits as f64 + not.values().sum::<f64>() * pages;
        Turn {
            mix,
            mode: mode.name().to_owned(),
            seconds,
            pages: tally.pages,
            mean_ms: tally.total_ns as f64 / 1e6 / pages,
            p95_ms: tally.times.per_mille(950).unwrap_or(0) as f64 / 1e6,
            statements: tally.statements as f64 / reported,
            waited_ms: tally.database_us as f64 / 1e3 / reported,
            at_server: each(begin.questions, end.questions),
            server_ms: each(begin.server_ns, end.server_ns) / 1e6,
            php_ms: each(begin.php_ns, end.php_ns) / 1e6,
            proxy_ms: each(begin.proxy_ns, end.proxy_ns) / 1e6,
            server_share: share(begin.server_ns, end.server_ns),
            php_share: share(begin.php_ns, end.php_ns),
            proxy_share: share(begin.proxy_ns, end.proxy_ns),
            hits: mode.caches().then(|| if asked > 0.0 { hits as f64 / asked * 100.0 } else { 0.0 }),
            not,
            seen_at_once: tally.seen_at_once,
            compared,
            around_ms: around.map(|around| around.as_secs_f64() * 1e3),
        }
    }

    fn read(
        &self,
        workers: &[Worker],
        running: Option<&Running>,
        admin: Option<SocketAddr>,
    ) -> anyhow::Result<Reading> {
        let server = self.world.server();
        let reported = server.sql("SHOW GLOBAL STATUS LIKE 'Questions'")?;
        let php: anyhow::Result<Vec<u64>> = workers.iter().map(|worker| system::cpu_ns(worker.pid())).collect();
        Ok(Reading {
            server_ns: system::cpu_ns(server.pid().context("the server is gone")?)?,
            php_ns: php?.into_iter().sum(),
            proxy_ns: running.and_then(Running::pid).map(system::cpu_ns).transpose()?.unwrap_or(0),
            questions: reported
                .split_whitespace()
                .last()
                .and_then(|count| count.parse().ok())
                .context("no Questions")?,
            cache: admin.map(counts).transpose()?.unwrap_or_default(),
        })
    }

    /// A comment is written around Sqluice: how long until its page shows it. `None` where only a TTL would end the wait.
    fn around(&self, mode: Mode, through: &Workers, admin: Option<SocketAddr>) -> anyhow::Result<Option<Duration>> {
        let post = POSTS_BEHIND + 1 + self.number;
        let (path, text) = (format!("/?p={post}"), format!("written around, turn {}", self.number));
        let read = || through.ask(&Ask::page(&path), &mut Cookies::new());
        read()?;
        self.world.server().sql(&format!(
            "USE {DATABASE};\nINSERT INTO wp_comments (comment_post_ID, comment_author, comment_author_email, comment_author_url, \
             comment_author_IP, comment_date, comment_date_gmt, comment_content, comment_approved, comment_agent, comment_type) \
             VALUES ({post}, 'Somebody', 'somebody@blog.test', '', '', NOW(), NOW(), '{text}', '1', '', 'comment');\n\
             UPDATE wp_posts SET comment_count = comment_count + 1 WHERE ID = {post}"
        ))?;
        let written = Instant::now();
        loop {
            stop::check()?;
            // All that was written so long ago must be seen by who asks from now on.
            let (asked, delay) =
                (Instant::now(), admin.filter(|_| mode == Mode::Follow).map(delay).transpose()?.flatten());
            if read()?.body.contains(&text) {
                return Ok(Some(asked.saturating_duration_since(written)));
            }
            let may_lack = match mode {
                Mode::Direct | Mode::Through => false,
                Mode::Ttl => return Ok(None),
                Mode::Follow => delay.is_some_and(|delay| written + delay > asked),
            };
            if !may_lack || written.elapsed() > AROUND_LIMIT {
                let (after, shown) = (asked - written, delay.unwrap_or_default());
                bail!(
                    "{path} does not show what was written around Sqluice {after:?} before; the delay shown was {shown:?}"
                );
            }
        }
    }
}

fn pool(workers: &[Worker]) -> Workers {
    Workers::new(workers.iter().map(|worker| worker.address))
}

/// The API's figures of the cache.
fn api(admin: SocketAddr) -> anyhow::Result<Value> {
    let authorization = format!("Bearer {KEY}");
    let headers = [("Authorization", &*authorization)];
    let ask = Ask { path: "/api/v1/cache", headers: &headers, ..Ask::default() };
    let page = http::ask(admin, &ask, &mut Cookies::new())?;
    serde_json::from_str(&page.body).with_context(|| format!("the API said {}", page.body))
}

/// The delay that is shown; `None` while the servers' log is not followed.
fn delay(admin: SocketAddr) -> anyhow::Result<Option<Duration>> {
    Ok(api(admin)?["follow"]["main"]["delay_ms"].as_u64().map(Duration::from_millis))
}

fn counts(admin: SocketAddr) -> anyhow::Result<Counts> {
    let reported = api(admin)?;
    let mut counts = Counts::default();
    for rule in reported["rules"].as_array().into_iter().flatten() {
        counts.hits += rule["hits"].as_u64().unwrap_or(0);
        counts.misses += rule["misses"].as_u64().unwrap_or(0);
        for (why, count) in rule["refused"].as_object().into_iter().flatten() {
            *counts.refused.entry(why.clone()).or_default() += count.as_u64().unwrap_or(0);
        }
    }
    Ok(counts)
}
