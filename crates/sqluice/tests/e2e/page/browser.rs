//! A real browser, told by WebDriver over HTTP what to do (https://www.w3.org/TR/webdriver2/).

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{SOON, http_send, signal, until};

/// The key under which WebDriver names an element.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";
/// Longest time that a driver or a browser gets to end by itself.
const END_LIMIT: Duration = Duration::from_secs(10);

/// The driver, and one browser of it.
pub struct Browser {
    driver: Child,
    address: String,
    session: String,
    /// The browser's own process.
    chromium: Option<u32>,
    _profile: TempDir,
}

fn start_driver() -> Option<(Child, String)> {
    let mut command = Command::new("chromedriver");
    command.arg("--port=0").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let Ok(mut driver) = command.spawn() else {
        lab::skip("chromedriver is missing: `./dev test` installs it, or `apt-get install chromium chromium-driver`");
        return None;
    };
    let lines = BufReader::new(driver.stdout.take().unwrap()).lines();
    let port = lines.map_while(Result::ok).find_map(|line| {
        let (_, port) = line.split_once("was started successfully on port ")?;
        port.trim_end_matches('.').parse::<u16>().ok()
    });
    let port = port.unwrap_or_else(|| panic!("chromedriver said no port"));
    Some((driver, format!("127.0.0.1:{port}")))
}

impl Browser {
    /// Starts one; `None` where there is none and that is allowed.
    pub async fn start() -> Option<Browser> {
        let (driver, address) = start_driver()?;
        let profile = TempDir::new().unwrap();
        let mut options = json!({ "args": [
            "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
            "--window-size=1280,860", "--force-prefers-reduced-motion",
            format!("--user-data-dir={}", profile.path().display()),
        ] });
        if let Ok(binary) = std::env::var("SQLUICE_CHROMIUM") {
            options["binary"] = binary.into();
        }
        let wanted = json!({
            "browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": { "browser": "ALL" },
        });
        let mut browser = Browser { driver, address, session: String::new(), chromium: None, _profile: profile };
        let page = browser.send("POST", "", &json!({ "capabilities": { "alwaysMatch": wanted } })).await;
        browser.session = page["sessionId"].as_str().unwrap_or_else(|| panic!("{page}")).to_owned();
        let pid = page["capabilities"]["goog:processID"].as_u64();
        browser.chromium = pid.and_then(|pid| u32::try_from(pid).ok());
        Some(browser)
    }

    async fn ask(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let slash = if self.session.is_empty() { "" } else { "/" };
        let path = format!("/session{slash}{}{path}", self.session);
        let body = if method == "POST" { body.to_string() } else { String::new() };
        let sent = tokio::time::timeout(2 * SOON, http_send(&self.address, method, &path, None, &body)).await;
        let (status, text) = sent.unwrap_or_else(|_| panic!("the driver does not answer {method} {path} {body}"));
        let mut page: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text:.300}"));
        let value = page["value"].take();
        if status == 200 { Ok(value) } else { Err(format!("{method} {path} {body}: {value:.600}")) }
    }

    async fn send(&self, method: &str, path: &str, body: &Value) -> Value {
        self.ask(method, path, body).await.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Goes to an address, and waits for the document.
    pub async fn open(&self, url: &str) {
        self.send("POST", "/url", &json!({ "url": url })).await;
    }

    /// The value of a JavaScript expression.
    pub async fn value(&self, expression: &str) -> Value {
        self.send("POST", "/execute/sync", &json!({ "script": format!("return {expression}"), "args": [] })).await
    }

    /// The value of a promise.
    pub async fn promised(&self, expression: &str) -> Value {
        let script = format!("const done = arguments[0]; ({expression}).then(done, error => done(String(error)))");
        self.send("POST", "/execute/async", &json!({ "script": script, "args": [] })).await
    }

    /// Waits until an expression is true.
    pub async fn wait(&self, expression: &str) {
        let begun = Instant::now();
        while self.value(&format!("Boolean({expression})")).await != true {
            let shown = async || self.value("document.body.innerText.slice(0, 1500)").await;
            assert!(begun.elapsed() < SOON, "this did not become true: {expression}\n{}", shown().await);
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
    }

    /// Waits until the page shows a text.
    pub async fn shows(&self, text: &str) {
        self.wait(&format!("document.body.innerText.includes({})", Value::from(text))).await;
    }

    async fn element(&self, css: &str) -> String {
        let find = json!({ "using": "css selector", "value": css });
        let found = until(css, async || self.ask("POST", "/element", &find).await.ok()).await;
        found[ELEMENT].as_str().unwrap_or_else(|| panic!("{found}")).to_owned()
    }

    /// Clicks, as a mouse does: what is covered or not there yet is tried again.
    pub async fn click(&self, css: &str) {
        until(&format!("a click on {css}"), async || {
            let element = self.element(css).await;
            self.ask("POST", &format!("/element/{element}/click"), &json!({})).await.ok()
        })
        .await;
    }

    /// Types into a field, as a keyboard does.
    pub async fn write(&self, css: &str, text: &str) {
        let element = self.element(css).await;
        self.send("POST", &format!("/element/{element}/clear"), &json!({})).await;
        self.send("POST", &format!("/element/{element}/value"), &json!({ "text": text })).await;
    }

    /// Presses keys, one after the other, wherever the focus is.
    pub async fn press(&self, keys: &str) {
        let keys = keys.chars().flat_map(|key| {
            [
                json!({ "type": "keyDown", "value": key.to_string() }),
                json!({ "type": "keyUp", "value": key.to_string() }),
            ]
        });
        let actions = json!([{ "type": "key", "id": "keyboard", "actions": keys.collect::<Vec<_>>() }]);
        self.send("POST", "/actions", &json!({ "actions": actions })).await;
    }

    /// Makes the window so wide.
    pub async fn resize(&self, width: u32, height: u32) {
        self.send("POST", "/window/rect", &json!({ "width": width, "height": height })).await;
    }

    /// Lines of the console that say that something is wrong.
    pub async fn complaints(&self) -> Vec<String> {
        let lines = self.send("POST", "/se/log", &json!({ "type": "browser" })).await;
        let severe = lines.as_array().into_iter().flatten().filter(|line| line["level"] == "SEVERE");
        severe.map(|line| line["message"].to_string()).collect()
    }

    /// Writes a picture of the window, if `SCREENSHOTS` names a folder.
    pub async fn picture(&self, name: &str) {
        let Some(folder) = std::env::var_os("SCREENSHOTS") else { return };
        let picture = self.send("GET", "/screenshot", &Value::Null).await;
        let bytes = STANDARD.decode(picture.as_str().unwrap()).unwrap();
        std::fs::write(std::path::Path::new(&folder).join(format!("{name}.png")), bytes).unwrap();
    }

    /// Ends the browser and its driver.
    pub async fn end(self) {
        self.send("DELETE", "", &Value::Null).await;
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The driver ends its browser with itself; one that stays is ended by the number that it told.
        signal(self.driver.id(), "TERM");
        let deadline = Instant::now() + END_LIMIT;
        while Instant::now() < deadline && !matches!(self.driver.try_wait(), Ok(Some(_))) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
        let is_chromium = |pid: u32| {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            name.starts_with("chrom")
        };
        if let Some(pid) = self.chromium.filter(|pid| is_chromium(*pid)) {
            signal(pid, "KILL");
        }
    }
}
