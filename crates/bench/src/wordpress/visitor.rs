//! A visitor: what he reads, what he writes, and that he sees it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context as _, bail};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::crowd::{Crowd, Tally, Window};
use super::pages;
use super::site::{BLOG_PASSWORD, CATEGORIES, CATEGORIES_BEHIND, POSTS_BEHIND, USERS};
use crate::http::{Ask, Cookies, Page};
use crate::stop;

/// How often visitors write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Mix {
    /// Each visit ends with a login, a story and a comment, as in the test that Percona published.
    Percona,
    /// One visit in ten ends so.
    Readers,
}

impl Mix {
    pub(super) fn name(self) -> &'static str {
        match self {
            Mix::Percona => "percona",
            Mix::Readers => "readers",
        }
    }

    /// One visit in so many ends with a story and a comment.
    fn one_in(self) -> u64 {
        match self {
            Mix::Percona => 1,
            Mix::Readers => 10,
        }
    }
}

/// Stories and categories that a visit reads.
const STORIES: u32 = 10;
const CATEGORY_PAGES: u32 = 3;

pub(super) struct Visitor<'a> {
    crowd: &'a Crowd<'a>,
    number: u32,
    window: Window,
    random: u64,
    /// How much was written.
    written: u32,
    cookies: Cookies,
    tally: Tally,
}

impl<'a> Visitor<'a> {
    pub(super) fn new(crowd: &'a Crowd<'a>, number: u32, window: Window) -> Visitor<'a> {
        // Marsaglia's xorshift must not begin with 0. Each turn reads the same.
        let random = (u64::from(number) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        Visitor { crowd, number, window, random, written: 0, cookies: Cookies::new(), tally: Tally::default() }
    }

    /// Visits again and again until the time is over, or somebody has failed.
    pub(super) fn stay(mut self, failed: &AtomicBool) -> anyhow::Result<Tally> {
        // Not all of them write at the same time.
        let mut visits = u64::from(self.number) * self.crowd.mix.one_in() / u64::from(self.crowd.visitors.max(1));
        while Instant::now() < self.window.end && !failed.load(Ordering::Relaxed) && !stop::is_asked() {
            visits += 1;
            self.visit(visits.is_multiple_of(self.crowd.mix.one_in()), failed)?;
        }
        Ok(self.tally)
    }

    fn visit(&mut self, writes: bool, failed: &AtomicBool) -> anyhow::Result<()> {
        let mut paths = vec!["/".to_owned()];
        paths.extend((0..STORIES).map(|_| format!("/?p={}", self.story())));
        paths.extend((0..CATEGORY_PAGES).map(|_| format!("/?cat={}", CATEGORIES_BEHIND + 1 + self.below(CATEGORIES))));
        for path in paths {
            if Instant::now() >= self.window.end || failed.load(Ordering::Relaxed) {
                return Ok(());
            }
            self.read(&path)?;
        }
        if writes {
            let written = self.write();
            self.cookies.clear();
            written?;
        }
        Ok(())
    }

    /// Logs in, writes a story and a comment, and looks at both.
    fn write(&mut self) -> anyhow::Result<()> {
        let user = format!("writer{}", 1 + self.below(USERS));
        let login = Ask { path: "/wp-login.php", form: &[("log", &user), ("pwd", BLOG_PASSWORD)], ..Ask::default() };
        self.ask(&login, 302)?;
        let nonce = self.ask(&Ask::page("/wp-admin/admin-ajax.php?action=rest-nonce"), 200)?.body;

        self.written += 1;
        let token = format!("token-{}-{}-{}", self.crowd.turn, self.number, self.written);
        let category = (CATEGORIES_BEHIND + 1 + self.below(CATEGORIES)).to_string();
        let story = format!("Only for now: {token}. It was a long day, and nobody had thought of the garden.");
        let fields = [("title", &*token), ("content", &story), ("status", "publish"), ("categories", &category)];
        let headers = [("X-WP-Nonce", nonce.trim())];
        let post = Ask { path: "/?rest_route=/wp/v2/posts", form: &fields, headers: &headers, ..Ask::default() };
        let made: serde_json::Value =
            serde_json::from_str(&self.ask(&post, 201)?.body).context("no story came back")?;
        let id = made["id"].as_u64().context("a story has no number")?;
        self.see(&format!("/?p={id}"), &token)?;

        let commented = self.story();
        let (id, text) = (commented.to_string(), format!("I said so, too: comment-{token}."));
        let fields = [("comment_post_ID", &*id), ("comment_parent", "0"), ("comment", &text)];
        let comment = Ask { path: "/wp-comments-post.php", form: &fields, ..Ask::default() };
        self.ask(&comment, 302)?;
        self.see(&format!("/?p={commented}"), &text)?;
        // Somebody else, who is not logged in.
        self.cookies.clear();
        self.see(&format!("/?p={commented}"), &text)
    }

    /// A page must show what was written before.
    fn see(&mut self, path: &str, text: &str) -> anyhow::Result<()> {
        if !self.read(path)?.body.contains(text) {
            bail!("the page {path} does not show '{text}', which was written before it was asked for");
        }
        self.tally.seen_at_once += 1;
        Ok(())
    }

    fn read(&mut self, path: &str) -> anyhow::Result<Page> {
        let page = self.ask(&Ask::page(path), 200)?;
        let Some((statements, us)) = pages::of_database(&page.body) else {
            bail!("the page {path} has no end");
        };
        if Instant::now() >= self.window.begin && Instant::now() <= self.window.end {
            self.tally.reported += 1;
            self.tally.statements += statements;
            self.tally.database_us += us;
        }
        Ok(page)
    }

    fn ask(&mut self, ask: &Ask<'_>, status: u16) -> anyhow::Result<Page> {
        let begin = Instant::now();
        let page = self.crowd.workers.ask(ask, &mut self.cookies)?;
        let end = Instant::now();
        if page.status != status {
            let text: String = page.body.chars().take(2000).collect();
            bail!("{} answered {} instead of {status}:\n{text}", ask.path, page.status);
        }
        if end >= self.window.begin && end <= self.window.end {
            let ns = u64::try_from((end - begin).as_nanos()).unwrap_or(u64::MAX);
            self.tally.pages += 1;
            self.tally.times.record(ns);
            self.tally.total_ns += ns;
        }
        Ok(page)
    }

    /// A story, a newer one more likely: its age in stories is as likely to be 1 to 10 as 10 to 100, and so on.
    fn story(&mut self) -> u32 {
        let share = f64::from(self.below(1 << 24)) / f64::from(1 << 24);
        let age = f64::from(self.crowd.posts).powf(share) as u32;
        POSTS_BEHIND + self.crowd.posts + 1 - age.clamp(1, self.crowd.posts)
    }

    fn below(&mut self, limit: u32) -> u32 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        // The high bits are the better ones.
        u32::try_from((self.random >> 16) % u64::from(limit.max(1))).unwrap_or(0)
    }
}
