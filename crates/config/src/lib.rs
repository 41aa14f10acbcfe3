//! What the operator wants: one TOML file, checked.
