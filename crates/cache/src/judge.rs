//! The statements whose results may be kept: they give the same until one of their tables is written. All others are
//! refused.

mod refused;

use sql::lexer::{Lexer, TokenKind};
use sql::{Access, Dialect, Kind, Statement, Varies, Why};

pub use refused::RefusedForms;

macro_rules! refusals {
    ($($(#[$doc:meta])* $name:ident = $word:literal,)*) => {
        /// Why an answer does not come from the cache, or is not kept.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Refusal {
            $($(#[$doc])* $name,)*
        }

        impl Refusal {
            /// All of them, in the order of their numbers.
            pub const ALL: &[Refusal] = &[$(Refusal::$name,)*];
            /// Their words.
            pub const WORDS: &[&str] = &[$($word,)*];
        }
    };
}

refusals! {
    /// It is no query that only reads.
    NotARead = "not_a_read",
    /// It comes with other statements in one text.
    SeveralStatements = "several_statements",
    /// It locks what it reads, or writes it somewhere.
    Locks = "locks",
    /// It changes the session, or asks what the statement before it has left.
    Session = "session",
    /// It reads `@name`.
    UserVariable = "user_variable",
    /// It reads `@@name`.
    SystemVariable = "system_variable",
    /// It calls a function that answers something else each time or for each session.
    Volatile = "volatile_function",
    /// It calls a function that is not known to answer the same each time.
    Function = "unknown_function",
    /// It reads tables or variables that tell of one server.
    ServerTables = "server_tables",
    /// It reads no table.
    NoTable = "no_table",
    /// A comment or SQL_NO_CACHE asks for the database's own answer.
    Asked = "asked",
    /// A routing comment names a server.
    Hint = "hint",
    /// The command is no text.
    Command = "command",
    /// The session keeps a connection: it is in a transaction, has temporary tables or locks.
    Pinned = "pinned",
    /// Autocommit is off: a read opens a transaction.
    AutocommitOff = "autocommit_off",
    /// Its transaction has a snapshot: what others have committed since is not seen in it.
    Snapshot = "snapshot",
    /// Its session sees what others have not committed.
    Uncommitted = "uncommitted",
    /// The text is changed on its way to the server.
    Rewritten = "rewritten",
    /// The reply is larger than `entry_max`.
    TooLarge = "too_large",
    /// The statement failed.
    Failed = "failed",
    /// The reply came with warnings.
    Warnings = "warnings",
    /// The reply reported a change of the session.
    Changes = "changes",
    /// It is not known which tables it reads.
    UnknownTables = "unknown_tables",
    /// Others with the same rights may not be able to read the same.
    Rights = "rights",
    /// The server that answered may have lacked what somebody has written.
    Behind = "behind",
    /// Something was written while the database answered.
    Raced = "raced",
    /// The rule wants the servers' logs followed, and they are not, or too far behind.
    NotFollowing = "not_following",
    /// The shared tier could not be asked.
    NoTier = "no_tier",
}

impl Refusal {
    /// The word that metrics have for it.
    pub fn word(self) -> &'static str {
        Refusal::WORDS.get(self as usize).copied().unwrap_or_default()
    }
}

/// Whether the answer to this statement may be kept. The text is what the statement was made from; it is read once for all
/// statements of its shape.
///
/// Facts that only the servers' dictionaries have are not seen here, such as the functions in a view's definition.
///
/// # Errors
/// Why not.
pub fn judge(statement: &Statement, text: &[u8], dialect: &Dialect) -> Result<(), Refusal> {
    // 0 is that it may.
    let verdict =
        statement.verdict(|| judge_anew(statement, text, dialect).map_or_else(|refusal| 1 + refusal as u8, |()| 0));
    match verdict.checked_sub(1) {
        None => Ok(()),
        Some(refusal) => Err(Refusal::ALL.get(usize::from(refusal)).copied().unwrap_or(Refusal::NotARead)),
    }
}

fn judge_anew(statement: &Statement, text: &[u8], dialect: &Dialect) -> Result<(), Refusal> {
    if statement.parts != 1 {
        return Err(Refusal::SeveralStatements);
    }
    match statement.access {
        Access::Read if statement.kind == Kind::Select => {}
        Access::Primary(Why::ServerState) => return Err(Refusal::ServerTables),
        Access::Primary(Why::LockingRead | Why::Into | Why::Locks) => return Err(Refusal::Locks),
        Access::Primary(Why::UnknownFunction | Why::WritingFunction) => return Err(Refusal::Function),
        Access::Primary(Why::SessionState | Why::SideEffect | Why::AssignsVariable) => return Err(Refusal::Session),
        _ => return Err(Refusal::NotARead),
    }
    if statement.hint.is_some() {
        return Err(Refusal::Hint);
    }
    let asks = statement.asks;
    match () {
        () if asks.contains(sql::Asks::USER_VARIABLES) => return Err(Refusal::UserVariable),
        () if asks.contains(sql::Asks::SYSTEM_VARIABLES) => return Err(Refusal::SystemVariable),
        () if asks.contains(sql::Asks::STORED_FUNCTIONS) => return Err(Refusal::Function),
        () if !asks.is_empty() || !is_unchanging(statement) || statement.transaction.is_some() => {
            return Err(Refusal::Session);
        }
        () if !statement.uses_tables => return Err(Refusal::NoTable),
        () => {}
    }
    if says_no_cache(text, dialect) {
        return Err(Refusal::Asked);
    }
    match sql::varies(text, dialect) {
        None => Ok(()),
        Some(Varies::UserVariable) => Err(Refusal::UserVariable),
        Some(Varies::SystemVariable) => Err(Refusal::SystemVariable),
        Some(Varies::Volatile) => Err(Refusal::Volatile),
        Some(Varies::Function) => Err(Refusal::Function),
        Some(Varies::Bad) => Err(Refusal::NotARead),
    }
}

/// Whether nothing in the session changes but what FOUND_ROWS() is, which is kept with the answer.
fn is_unchanging(statement: &Statement) -> bool {
    statement.effects.iter().all(|effect| *effect == sql::Effect::CalcFoundRows)
}

fn says_no_cache(text: &[u8], dialect: &Dialect) -> bool {
    let mut lexer = Lexer::new(text, dialect);
    loop {
        let token = lexer.next_token();
        match token.kind {
            TokenKind::End | TokenKind::Bad => return false,
            TokenKind::Word if token.bytes(text).eq_ignore_ascii_case(b"sql_no_cache") => return true,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sql::{Encoding, Family, Modes, NoFunctions};

    fn judged(text: &str) -> Result<(), Refusal> {
        let dialect =
            Dialect { family: Family::MariaDb, version: 101_100, modes: Modes::empty(), encoding: Encoding::Utf8 };
        judge(&sql::classify(text.as_bytes(), &dialect, &NoFunctions), text.as_bytes(), &dialect)
    }

    #[test]
    fn reads_that_answer_the_same_may_be_kept() {
        for text in [
            "SELECT c FROM sbtest1 WHERE id = 5",
            "select distinct c from t where id between 5 and 7 order by c",
            "SELECT COUNT(*), SUM(a.n) FROM a JOIN b USING (id) WHERE a.t IN (1, 2) AND (b.x OR b.y)",
            "SELECT * FROM (SELECT a FROM t) AS d WHERE EXISTS (SELECT 1 FROM u)",
            "SELECT DATE_FORMAT(d, '%Y'), UNIX_TIMESTAMP(d), CAST(a AS DECIMAL(10,2)) FROM t USE INDEX (i) GROUP BY 1",
            "SELECT 'now()', `rand` FROM t /* uuid() */ WHERE t.current_user = 1",
            "SELECT SQL_CALC_FOUND_ROWS a FROM t LIMIT 10",
            "(SELECT a FROM t) UNION ALL (SELECT a FROM u) LIMIT 5",
            "SELECT ROW_NUMBER() OVER (PARTITION BY a ORDER BY b) FROM t",
            "SELECT a FROM t WHERE b LIKE '%x%' AND d > DATE_SUB('2020-01-01', INTERVAL (5) DAY)",
        ] {
            assert_eq!(judged(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn all_else_is_refused_with_its_reason() {
        use Refusal::*;
        for (text, refusal) in [
            ("UPDATE t SET a = 1", NotARead),
            ("SHOW TABLES", NotARead),
            ("SELECT a FROM t; SELECT b FROM t", SeveralStatements),
            ("SELECT a FROM t FOR UPDATE", Locks),
            ("SELECT a FROM t LOCK IN SHARE MODE", Locks),
            ("SELECT a FROM t WHERE GET_LOCK('x', 1)", Locks),
            ("SELECT a INTO OUTFILE '/x' FROM t", Locks),
            ("SELECT a FROM t WHERE id = @a", UserVariable),
            ("SELECT a FROM t WHERE id = @@sql_mode", ServerTables),
            ("SELECT a FROM t WHERE d < NOW()", Volatile),
            ("SELECT a FROM t WHERE d < current_timestamp", Volatile),
            ("SELECT a, /*!50000 RAND() */ FROM t", Volatile),
            ("SELECT a FROM t ORDER BY rand()", Volatile),
            ("SELECT UNIX_TIMESTAMP() FROM t", Volatile),
            ("SELECT a FROM t WHERE u = USER()", Volatile),
            ("SELECT a FROM t WHERE u = current_user", Volatile),
            ("SELECT DATABASE(), a FROM t", Volatile),
            ("SELECT mine(a) FROM t", Function),
            ("SELECT shop.mine(a) FROM t", Function),
            ("SELECT `mine`(a) FROM t", Function),
            ("SELECT AES_ENCRYPT(a, 'k') FROM t", Function),
            ("SELECT table_name FROM information_schema.tables", ServerTables),
            ("SELECT 1", NoTable),
            ("SELECT SQL_NO_CACHE a FROM t", Asked),
            ("SELECT /* sqluice: primary */ a FROM t", Hint),
        ] {
            assert_eq!(judged(text), Err(refusal), "{text}");
        }
    }

    #[test]
    fn a_shape_is_judged_once_for_all_its_texts() {
        let dialect =
            Dialect { family: Family::MariaDb, version: 101_100, modes: Modes::empty(), encoding: Encoding::Utf8 };
        let mut memo = sql::Memo::default();
        let mut judged = |text: &str, read: &str| {
            let statement = memo.classify(text.as_bytes(), &dialect, &NoFunctions);
            judge(&statement, read.as_bytes(), &dialect)
        };
        let [kept, refused] = ["SELECT a FROM t WHERE id = 1", "SELECT a FROM t WHERE id = 1 AND d < NOW()"];
        assert_eq!((judged(kept, kept), judged(refused, refused)), (Ok(()), Err(Refusal::Volatile)));
        // Whatever is given as the text now: it is not read again.
        assert_eq!(judged("SELECT a FROM t WHERE id = 22", refused), Ok(()));
        assert_eq!(judged("SELECT a FROM t WHERE id = 22 AND d < NOW()", kept), Err(Refusal::Volatile));
        assert_eq!(judged("SELECT b FROM t WHERE id = 1", refused), Err(Refusal::Volatile), "another shape");
    }

    #[test]
    fn sessions_functions_are_refused_whatever_the_classifier_says_of_them() {
        for text in ["SELECT LAST_INSERT_ID(), a FROM t", "SELECT CONNECTION_ID() FROM t", "SELECT FOUND_ROWS() FROM t"]
        {
            assert!(judged(text).is_err(), "{text}");
        }
    }

    #[test]
    fn each_refusal_has_a_word_of_its_own() {
        let words: std::collections::HashSet<_> = Refusal::ALL.iter().map(|refusal| refusal.word()).collect();
        assert_eq!(words.len(), Refusal::ALL.len());
        assert_eq!(Refusal::Raced.word(), "raced");
    }
}
