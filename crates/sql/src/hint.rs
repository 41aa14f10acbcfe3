//! Routing comments.

/// A routing comment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Hint {
    /// `/* sqluice: primary */`.
    Primary,
    /// `/* sqluice: replica */`.
    Replica,
    /// `/* sqluice: server=NAME */`.
    Server(String),
    /// `/* sqluice: consistency=… */`: what the read must see.
    Consistency(HintConsistency),
}

/// The writes that a read must see, as a comment says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HintConsistency {
    /// Nothing in particular.
    None,
    /// The writes of its session.
    Session,
    /// The writes of all sessions.
    Cluster,
    /// The writes of all sessions to the tables that the read names.
    Table,
}

/// Whether the words after `sqluice:` ask for the ids that servers have for connections: `/* sqluice: direct */`. It goes with
/// any [`Hint`].
pub(crate) fn asks_for_servers_ids(words: &[u8]) -> bool {
    let mut words = words.split(|byte| byte.is_ascii_whitespace() || *byte == b',');
    words.any(|word| word.eq_ignore_ascii_case(b"direct"))
}

impl Hint {
    /// The hint in the words after `sqluice:`; the first known word counts, unknown ones are ignored.
    pub(crate) fn parse(words: &[u8]) -> Option<Hint> {
        let words = std::str::from_utf8(words).ok()?;
        words.split(|character: char| character.is_whitespace() || character == ',').find_map(|word| {
            if word.eq_ignore_ascii_case("primary") {
                return Some(Hint::Primary);
            }
            if word.eq_ignore_ascii_case("replica") {
                return Some(Hint::Replica);
            }
            let (key, name) = word.split_once('=')?;
            if key.eq_ignore_ascii_case("consistency") {
                let is = |word: &str| name.eq_ignore_ascii_case(word);
                return match () {
                    () if is("none") => Some(Hint::Consistency(HintConsistency::None)),
                    () if is("session") => Some(Hint::Consistency(HintConsistency::Session)),
                    () if is("cluster") => Some(Hint::Consistency(HintConsistency::Cluster)),
                    () if is("table") => Some(Hint::Consistency(HintConsistency::Table)),
                    () => None,
                };
            }
            (key.eq_ignore_ascii_case("server") && !name.is_empty()).then(|| Hint::Server(name.to_owned()))
        })
    }
}
