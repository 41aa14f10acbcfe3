//! The rules.

mod circles;
mod imports;
mod pages;
mod purity;
mod sentences;
mod sizes;
mod unsafe_code;

pub use purity::PURE;

use std::path::Path;

use crate::Finding;
use crate::tree::Crate;

/// Everything that breaks a rule.
///
/// # Errors
/// A file cannot be read.
pub fn all(root: &Path, crates: &[Crate]) -> anyhow::Result<Vec<Finding>> {
    let mut findings = purity::check(crates);
    findings.append(&mut imports::check(crates));
    findings.append(&mut circles::check(root, crates)?);
    findings.append(&mut unsafe_code::check(crates));
    findings.append(&mut sizes::functions(root, crates)?);
    findings.append(&mut sizes::files(root)?);
    findings.append(&mut pages::check(root)?);
    findings.append(&mut sentences::check(root)?);
    Ok(findings)
}
