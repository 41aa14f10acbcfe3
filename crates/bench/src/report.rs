//! Writes the figures of runs into the page about performance.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};
use clap::ValueEnum as _;

use crate::figures::Record;
use crate::load::Load;
use crate::table;

/// This program writes the part of the page between these lines; people write the rest.
const BEGIN: &str = "<!-- figures: begin -->";
const END: &str = "<!-- figures: end -->";

/// Reads all records of a folder, and writes them into a page.
///
/// # Errors
/// A record or the page cannot be read, or the page has no place for figures.
pub(crate) fn write(folder: &Path, page: &Path) -> anyhow::Result<()> {
    let mut records = Vec::new();
    for load in Load::value_variants() {
        let path = folder.join(format!("{}.json", load.name()));
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let record: Record = serde_json::from_str(&text).with_context(|| format!("{} is no record", path.display()))?;
        records.push((*load, record));
    }
    if records.is_empty() {
        bail!("{} has no figures: run a load first, such as `./dev bench all`", folder.display());
    }
    let pictures = page.with_extension("");
    fs::create_dir_all(&pictures).with_context(|| format!("cannot make {}", pictures.display()))?;
    for (load, _) in &records {
        let name = format!("{}.svg", load.name());
        fs::copy(folder.join(&name), pictures.join(&name)).with_context(|| format!("cannot copy {name}"))?;
    }
    let old = fs::read_to_string(page).with_context(|| format!("cannot read {}", page.display()))?;
    let base = pictures.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let new = replaced(&old, &figures(&records, &base))
        .with_context(|| format!("{} has no lines {BEGIN} and {END}", page.display()))?;
    fs::write(page, new).with_context(|| format!("cannot write {}", page.display()))?;
    eprintln!("{} loads written into {}, pictures into {}", records.len(), page.display(), pictures.display());
    Ok(())
}

/// The page with other figures; `None` when it has no place for them.
fn replaced(page: &str, figures: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n\n{figures}\n{END}{after}"))
}

fn figures(records: &[(Load, Record)], pictures: &str) -> String {
    let mut text = String::from("Written by `./dev bench report`; do not edit.\n\n");
    let all = || records.iter().map(|(_, record)| record);
    let machines: Vec<String> = all().map(machine).collect();
    for machine in table::distinct(machines.iter().map(String::as_str)) {
        let _ = writeln!(text, "- {machine}");
    }
    let versions: Vec<String> =
        all().flat_map(|record| &record.versions).map(|(name, version)| format!("{name}: {version}")).collect();
    for version in table::distinct(versions.iter().map(String::as_str)) {
        let _ = writeln!(text, "- {version}");
    }
    for (load, record) in records {
        let name = load.name();
        let _ = writeln!(text, "\n### {name}\n\n{}\n", load.about());
        let _ = writeln!(
            text,
            "{}: `{}`; {} rounds of {} s, {} threads for each proxy.\n",
            record.date, record.command, record.rounds, record.seconds, record.workers
        );
        record.notes.iter().for_each(|note| text.push_str(&format!("- {note}\n")));
        let _ = writeln!(text, "\n![{name}]({pictures}/{name}.svg)\n\n{}", table::tables(record, *load).trim_end());
    }
    text
}

fn machine(record: &Record) -> String {
    let machine = &record.machine;
    format!(
        "Machine: {} ({} cores, {} GB), {}, Linux {}",
        machine.cpu, machine.cores, machine.memory_gb, machine.system, machine.kernel
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{Cell, Sample};
    use crate::machine::Machine;

    #[test]
    fn only_what_stands_between_the_lines_changes() {
        let page = format!("# Performance\n\nBy hand.\n\n{BEGIN}\nold\n{END}\n\nAlso by hand.\n");
        let new = replaced(&page, "new").unwrap();
        assert!(new.starts_with("# Performance\n\nBy hand.\n\n") && new.ends_with("\n\nAlso by hand.\n"), "{new}");
        assert!(new.contains("new") && !new.contains("old"), "{new}");
        assert_eq!(replaced(&new, "new"), Some(new.clone()));
        assert_eq!(replaced("# Performance\n", "new"), None);
    }

    #[test]
    fn records_become_a_page() {
        let folder = tempfile::tempdir().unwrap();
        let (output, page) = (folder.path().join("bench"), folder.path().join("page.md"));
        fs::create_dir(&output).unwrap();
        fs::write(&page, format!("{BEGIN}\n{END}\n")).unwrap();
        assert!(write(&output, &page).unwrap_err().to_string().contains("no figures"));
        let sample = Sample { seconds: 1.0, clients: 16, queries: 1234, ..Sample::default() };
        let [group, label, contender] = ["text", "16", "sqluice"].map(str::to_owned);
        let record = Record {
            load: "point".into(),
            date: "2026-11-22 04:30 UTC".into(),
            command: "./dev bench point".into(),
            rounds: 1,
            seconds: 1,
            workers: 2,
            machine: Machine { cpu: "Some CPU".into(), ..Machine::default() },
            versions: vec![("server".into(), "10.11".into())],
            notes: vec!["a note".into()],
            cells: vec![Cell { group, label, contender, samples: vec![sample], warm_up: None }],
        };
        fs::write(output.join("point.json"), serde_json::to_string(&record).unwrap()).unwrap();
        fs::write(output.join("point.svg"), "<svg/>").unwrap();
        write(&output, &page).unwrap();
        let text = fs::read_to_string(&page).unwrap();
        for part in ["Some CPU", "server: 10.11", "### point", "./dev bench point", "a note", "1,234", "page/point.svg"]
        {
            assert!(text.contains(part), "no '{part}' in {text}");
        }
        assert!(folder.path().join("page/point.svg").exists());
    }
}
