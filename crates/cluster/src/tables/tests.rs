use super::*;
use sql::{Dialect, Encoding, Family, Modes};

const DIALECT: Dialect =
    Dialect { family: Family::MariaDb, version: 101_119, modes: Modes::empty(), encoding: Encoding::Utf8 };

fn name(text: &str) -> QualifiedName {
    let (schema, name) = text.split_once('.').unwrap();
    QualifiedName { schema: schema.into(), name: name.into() }
}

/// `app.t` is a table, `app.v = query` a view, `app.x: engine` a table of an engine.
fn rows(tables: &[&str]) -> TableRows {
    let tables = tables.iter().map(|text| {
        let view = text.split_once(" = ");
        let (called, kind) = match (view, text.split_once(": ")) {
            (Some((called, query)), _) => (called, TableKind::View { definition: Some(query.to_owned()) }),
            (None, Some((called, engine))) => (called, TableKind::Table { engine: engine.to_owned() }),
            (None, None) => (*text, TableKind::Table { engine: "InnoDB".to_owned() }),
        };
        TableRow { name: name(called), kind }
    });
    TableRows {
        folds_case: false,
        dialect: DIALECT,
        tables: tables.collect(),
        with_triggers: Some(Vec::new()),
        cascades: Vec::new(),
    }
}

fn keys(places: &[&str]) -> Scope {
    Scope::of(places.iter().map(|text| key(&text.replace('.', "\0"))).collect())
}

fn scopes(rows: &TableRows, text: &str) -> (Scope, Scope) {
    let (catalog, named) = (TableCatalog::new(rows), sql::tables(text.as_bytes(), &DIALECT));
    (catalog.read_by(&named, Some("app")), catalog.written_by(&named, Some("app")))
}

#[test]
fn tables_are_found_in_their_schemas() {
    let rows = rows(&["app.t", "app.u", "other.t"]);
    let reads = |text| scopes(&rows, text).0;
    assert_eq!(reads("SELECT * FROM t, other.t"), keys(&["app.t", "other.t"]));
    assert_eq!(reads("SELECT * FROM t, unknown"), Scope::Any);
    assert_eq!(reads("SELECT * FROM T"), Scope::Any, "case counts here");
    assert_eq!(reads("SELECT f() FROM t"), Scope::Any);
    assert_eq!(reads("CALL p()"), Scope::Any);
    assert_eq!(reads("SELECT 1"), Scope::nothing());
    let (catalog, named) = (TableCatalog::new(&rows), sql::tables(b"SELECT * FROM t", &DIALECT));
    assert_eq!(catalog.read_by(&named, None), Scope::Any, "no schema is chosen");
    assert_eq!(catalog.read_by(&named, Some("other")), keys(&["other.t"]));
}

#[test]
fn case_counts_where_it_does_on_the_server() {
    let rows = TableRows { folds_case: true, ..rows(&["app.t"]) };
    assert_eq!(scopes(&rows, "SELECT * FROM APP.T").0, keys(&["app.t"]));
}

#[test]
fn views_are_what_they_read() {
    let rows = rows(&[
        "app.t",
        "app.u",
        "app.v = select `app`.`t`.`a` AS `a` from (`app`.`t` join `app`.`u`)",
        "app.w = select 1 AS `1` from `app`.`v` union select 2 from `app`.`x`",
        "app.x = select 1 from `app`.`u`",
        "app.calls = select `app`.`f`() from `app`.`t`",
        "app.round = select 1 from `app`.`about`",
        "app.about = select 1 from `app`.`round`",
        "app.gone = select 1 from `app`.`lost`",
    ]);
    let both = keys(&["app.t", "app.u"]);
    assert_eq!(scopes(&rows, "SELECT * FROM v").0, both);
    assert_eq!(scopes(&rows, "SELECT * FROM w").0, both);
    assert_eq!(scopes(&rows, "UPDATE v SET a = 1").1, both);
    for unknown in ["calls", "round", "about", "gone"] {
        assert_eq!(scopes(&rows, &format!("SELECT * FROM {unknown}")).0, Scope::Any, "{unknown}");
    }
    let hidden = TableRow { name: name("app.v"), kind: TableKind::View { definition: None } };
    let rows = TableRows { tables: vec![hidden], ..rows };
    assert_eq!(scopes(&rows, "SELECT * FROM v").0, Scope::Any, "its definition may not be seen");
}

#[test]
fn views_deep_inside_one_another_are_followed_or_unknown() {
    let mut texts = vec!["app.v0".to_owned()];
    texts.extend((1..40).map(|n| format!("app.v{n} = select 1 from app.v{}", n - 1)));
    texts.reverse();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let found = scopes(&rows(&texts), "SELECT * FROM v3").0;
    assert_eq!(found, keys(&["app.v0"]));
    assert_eq!(scopes(&rows(&texts), "SELECT * FROM v39").0, Scope::Any);
}

#[test]
fn a_write_counts_for_what_foreign_keys_and_triggers_make_of_it() {
    let cascade = |parent, child| Cascade { parent: name(parent), child: name(child) };
    let all = ["app.a", "app.b", "app.c", "app.d", "app.e"];
    let cascades = vec![cascade("app.a", "app.b"), cascade("app.b", "app.c"), cascade("app.c", "app.a")];
    let mut rows = TableRows { cascades, with_triggers: Some(vec![name("app.e")]), ..rows(&all) };
    let writes = |rows: &TableRows, text| scopes(rows, text).1;
    assert_eq!(writes(&rows, "DELETE FROM a"), keys(&["app.a", "app.b", "app.c"]));
    assert_eq!(writes(&rows, "DELETE FROM d"), keys(&["app.d"]));
    assert_eq!(writes(&rows, "INSERT INTO e VALUES (1)"), Scope::Any);
    assert_eq!(writes(&rows, "ALTER TABLE d ADD x INT"), Scope::Any);
    assert_eq!(scopes(&rows, "SELECT * FROM a, e").0, keys(&["app.a", "app.e"]), "reading has no consequences");
    rows.cascades.push(cascade("app.d", "app.e"));
    assert_eq!(writes(&rows, "DELETE FROM d"), Scope::Any);
    rows.with_triggers = None;
    assert_eq!(writes(&rows, "DELETE FROM a"), Scope::Any, "triggers may be hidden");
}

#[test]
fn engines_that_show_other_rows_are_unknown() {
    let rows = rows(&["app.m: MRG_MyISAM", "app.f: FEDERATED", "app.t: Aria"]);
    assert_eq!(scopes(&rows, "SELECT * FROM m").0, Scope::Any);
    assert_eq!(scopes(&rows, "INSERT INTO f VALUES (1)").1, Scope::Any);
    assert_eq!(scopes(&rows, "SELECT * FROM t").0, keys(&["app.t"]));
}

#[test]
fn what_was_read_is_believed_until_a_definition_begins() {
    let published = PublishedTables::default();
    assert!(published.current().is_none() && !published.is_wanted());
    assert!(published.watch() && !published.watch());
    assert!(published.is_wanted());
    published.publish(TableCatalog::default(), published.request());
    assert!(published.current().is_some() && !published.is_wanted());
    published.definition_begins();
    assert!(published.current().is_none());
    let during = published.request();
    published.definition_ends();
    published.publish(TableCatalog::default(), during);
    assert!(published.current().is_none(), "it was read before the definition was over");
    published.publish(TableCatalog::default(), published.request());
    assert!(published.current().is_some());
}
