//! `sqluice relieve`: sessions of a busy worker move to the least busy one.

use std::process::ExitCode;

use serde_json::{Value, json};

use crate::api::{Api, ApiArgs};
use crate::out;
use crate::sessions::good;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    api: ApiArgs,
    /// The worker that gives sessions, as the page shows it: from 0 on.
    #[arg(value_name = "WORKER")]
    worker: usize,
    /// Only say which worker would get them, and how many.
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let api = Api::find(&args.api)?;
    let body = json!({ "dry_run": args.dry_run }).to_string();
    let page = good(api.ask("PUT", &format!("/workers/{}/relieve", args.worker), &body)?)?;
    out::line(&describe(&page))?;
    Ok(ExitCode::SUCCESS)
}

fn describe(page: &Value) -> String {
    let percent = 100.0 * page["share"].as_f64().unwrap_or(0.0);
    let of = page["of"].as_str().unwrap_or("load");
    let (worker, to) = (&page["worker"], &page["to"]);
    match page["moved"].as_u64() {
        Some(moved) => format!("{moved} of {} sessions moved from worker {worker} to worker {to}", page["chosen"]),
        None => format!("{percent:.0} % of the {of} of worker {worker} would move to worker {to}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_and_a_result_are_one_line_each() {
        let plan = json!({ "worker": 1, "to": 0, "share": 0.42, "of": "load", "dry_run": true });
        assert_eq!(describe(&plan), "42 % of the load of worker 1 would move to worker 0");
        let mut result = plan;
        (result["chosen"], result["moved"]) = (json!(5), json!(4));
        assert_eq!(describe(&result), "4 of 5 sessions moved from worker 1 to worker 0");
    }
}
