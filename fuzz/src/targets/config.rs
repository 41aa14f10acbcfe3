//! The configuration file: any text has an answer, and every mistake has its place.

use config::{Address, MemorySource, diff, parse};

/// See the module.
pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(address) = Address::parse(&text) {
        assert_eq!(Address::parse(&address.to_string()), Ok(address));
    }
    match parse("x.toml", &text, &MemorySource::default()) {
        Ok(loaded) => assert!(diff(&loaded.config, &loaded.config).is_empty()),
        Err(errors) => {
            assert!(!errors.0.is_empty());
            let lines = text.matches('\n').count() + 1;
            for problem in errors.0 {
                assert!((1..=lines).contains(&problem.line) && problem.column >= 1, "{problem}");
                assert!(!problem.to_string().contains('\n'), "{problem:?}");
            }
        }
    }
}
