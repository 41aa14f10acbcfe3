use super::*;
use crate::changes::KeyPart;
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
        keys: Vec::new(),
        computed: None,
    }
}

fn keys(places: &[&str]) -> TableScope {
    TableScope::of(places.iter().map(|text| key(&text.replace('.', "\0"))).collect())
}

fn scopes(rows: &TableRows, text: &str) -> (TableScope, TableScope) {
    let (catalog, named) = (TableCatalog::new(rows), sql::tables(text.as_bytes(), &DIALECT));
    (catalog.read_by(&named, Some("app")), catalog.written_by(&named, Some("app")))
}

#[test]
fn tables_are_found_in_their_schemas() {
    let rows = rows(&["app.t", "app.u", "other.t"]);
    let reads = |text| scopes(&rows, text).0;
    assert_eq!(reads("SELECT * FROM t, other.t"), keys(&["app.t", "other.t"]));
    assert_eq!(reads("SELECT * FROM t, unknown"), TableScope::Any);
    assert_eq!(reads("SELECT * FROM T"), TableScope::Any, "case counts here");
    assert_eq!(reads("SELECT f() FROM t"), TableScope::Any);
    assert_eq!(reads("CALL p()"), TableScope::Any);
    assert_eq!(reads("SELECT 1"), TableScope::nothing());
    let (catalog, named) = (TableCatalog::new(&rows), sql::tables(b"SELECT * FROM t", &DIALECT));
    assert_eq!(catalog.read_by(&named, None), TableScope::Any, "no schema is chosen");
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
        assert_eq!(scopes(&rows, &format!("SELECT * FROM {unknown}")).0, TableScope::Any, "{unknown}");
    }
    let hidden = TableRow { name: name("app.v"), kind: TableKind::View { definition: None } };
    let rows = TableRows { tables: vec![hidden], ..rows };
    assert_eq!(scopes(&rows, "SELECT * FROM v").0, TableScope::Any, "its definition may not be seen");
}

#[test]
fn what_differs_by_time_or_session_is_read_but_answered_by_nothing_known() {
    let all = rows(&[
        "app.t",
        "app.own = select `app`.`t`.`a` AS `a` from `app`.`t` where `app`.`t`.`owner` = current_user()",
        "app.clock = select now() AS `now` from `app`.`t`",
        "app.last = select last_insert_id() AS `id` from `app`.`t`",
        "app.of_clock = select `app`.`clock`.`now` AS `now` from `app`.`clock`",
        "app.plain = select `app`.`t`.`a` AS `a` from `app`.`t`",
    ]);
    let answered = |rows: &TableRows, table: &str| {
        let named = sql::tables(format!("SELECT * FROM {table}").as_bytes(), &DIALECT);
        let catalog = TableCatalog::new(rows);
        assert_eq!(catalog.read_by(&named, Some("app")), keys(&["app.t"]), "{table}");
        catalog.answered_by(&named, Some("app"))
    };
    for table in ["t", "plain"] {
        assert_eq!(answered(&all, table), keys(&["app.t"]), "{table}");
    }
    for table in ["own", "clock", "last", "of_clock"] {
        assert_eq!(answered(&all, table), TableScope::Any, "{table}");
    }
    let with = |seen: &[&str], expression: &str| {
        let expressions = vec![(name("app.t"), expression.to_owned())];
        let computed = ComputedColumns { seen: seen.iter().map(|table| name(table)).collect(), expressions };
        TableRows { computed: Some(computed), ..all.clone() }
    };
    assert_eq!(answered(&with(&["app.t"], "`a` + 1"), "plain"), keys(&["app.t"]));
    assert_eq!(
        answered(&with(&["app.t"], "current_user()"), "plain"),
        TableScope::Any,
        "a column of a table of the view"
    );
    assert_eq!(answered(&with(&["app.other"], "`a` + 1"), "t"), TableScope::Any, "its columns are not seen");
}

#[test]
fn views_deep_inside_one_another_are_followed_or_unknown() {
    let mut texts = vec!["app.v0".to_owned()];
    texts.extend((1..40).map(|n| format!("app.v{n} = select 1 from app.v{}", n - 1)));
    texts.reverse();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let found = scopes(&rows(&texts), "SELECT * FROM v3").0;
    assert_eq!(found, keys(&["app.v0"]));
    assert_eq!(scopes(&rows(&texts), "SELECT * FROM v39").0, TableScope::Any);
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
    assert_eq!(writes(&rows, "INSERT INTO e VALUES (1)"), TableScope::Any);
    assert_eq!(writes(&rows, "ALTER TABLE d ADD x INT"), TableScope::Any);
    assert_eq!(scopes(&rows, "SELECT * FROM a, e").0, keys(&["app.a", "app.e"]), "reading has no consequences");
    rows.cascades.push(cascade("app.d", "app.e"));
    assert_eq!(writes(&rows, "DELETE FROM d"), TableScope::Any);
    rows.with_triggers = None;
    assert_eq!(writes(&rows, "DELETE FROM a"), TableScope::Any, "triggers may be hidden");
}

#[test]
fn engines_that_show_other_rows_are_unknown() {
    let rows = rows(&["app.m: MRG_MyISAM", "app.f: FEDERATED", "app.t: Aria"]);
    assert_eq!(scopes(&rows, "SELECT * FROM m").0, TableScope::Any);
    assert_eq!(scopes(&rows, "INSERT INTO f VALUES (1)").1, TableScope::Any);
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

#[test]
fn keys_are_the_same_in_every_process_of_every_version() {
    // The first digits of `printf 'app\0orders' | sha256sum`. Other keys would tell other processes of other tables.
    for (at, expected) in [
        ("app\0orders", 0xb815_2f62_e457_5687),
        ("Größe\0Straße", 0x91c4_a6ae_2951_420d),
        ("\0", 0x6e34_0b9c_ffb3_7a98),
    ] {
        assert_eq!(key(at), TableKey(expected), "{at:?}");
    }
    assert_eq!(&*place(false, "app", "Orders"), "app\0Orders");
    assert_eq!(&*place(true, "APP", "Orders"), "app\0orders");
}

const INTEGER: KeyKind = KeyKind::Integer { max: 1_000 };

fn with_key(mut rows: TableRows, table: &str, columns: &[(&str, KeyKind)], is_only_unique: bool) -> TableRows {
    let columns = columns.iter().map(|(name, kind)| KeyColumn { name: (*name).into(), kind: *kind, counts_up: false });
    let key = PrimaryKey { columns: columns.collect(), is_only_unique };
    rows.keys.push(KeyRow { table: name(table), key });
    rows
}

fn table(text: &str) -> TableName {
    TableName { schema: None, name: text.into() }
}

#[test]
fn a_row_is_known_by_all_columns_of_its_key() {
    let rows = with_key(
        rows(&["app.t", "app.v = select * from app.t"]),
        "app.t",
        &[("a", INTEGER), ("b", KeyKind::Text)],
        true,
    );
    let catalog = TableCatalog::new(&rows);
    assert!(catalog.key_of(&table("v"), Some("app")).is_none() && catalog.key_of(&table("t"), None).is_none());
    let (own, key) = catalog.key_of(&table("t"), Some("app")).unwrap();
    assert!(key.has("A") && !key.has("c"));
    let row = |a: KeyValue<'static>, b: &'static str| {
        key.row(own, |column| Some(if column == "a" { a } else { KeyValue::Text(b.as_bytes()) }))
    };
    let five = KeyValue::Integer(5);
    let same = row(five, "x").unwrap();
    assert_eq!(row(KeyValue::Text(b"5"), "x  "), Some(same), "as servers compare");
    for other in [row(five, "X"), row(five, " x"), row(KeyValue::Integer(-5), "x"), row(KeyValue::Integer(6), "x")] {
        assert!(other.is_some_and(|other| other != same));
    }
    for unsure in ["05", "5.0", " 5", "+5", "5a", "", "-0", "9007199254740993"] {
        assert_eq!(row(KeyValue::Text(unsure.as_bytes()), "x"), None, "{unsure}");
    }
    assert_eq!((row(five, "\u{fc}"), row(five, "a\\b")), (None, None));
    assert_eq!(key.row(own, |column| (column == "a").then_some(five)), None);
    assert_eq!(key.row(own, |_| Some(five)), None, "many texts are equal to a number");
    // As the log has it.
    let reported = |parts: Vec<KeyPart>| catalog.changed_rows("app", "t", Some(&[parts].into())).rows;
    let text = |text: &str| KeyPart::Bytes(text.as_bytes().into());
    assert_eq!(reported(vec![KeyPart::Integer(5), text("x ")]), [(own, vec![same])]);
    assert_eq!(reported(vec![text("x"), KeyPart::Integer(5)]), [], "the key is another one");
    assert_eq!(reported(vec![KeyPart::Integer(5)]), []);
    assert_eq!(catalog.changed_rows("app", "t", None), WrittenRows::all(keys(&["app.t"])));
    assert_eq!(
        catalog.changed_rows("app", "u", Some(&[vec![KeyPart::Integer(5)]].into())),
        WrittenRows::all(TableScope::Any)
    );
}

#[test]
fn a_new_row_is_known_if_its_number_is_left_as_it_is() {
    let catalog = TableCatalog::new(&with_key(rows(&["app.t"]), "app.t", &[("a", INTEGER)], true));
    let (own, key) = catalog.key_of(&table("t"), Some("app")).unwrap();
    assert_eq!(key.new_row(own, |_| Some(7)), key.row(own, |_| Some(KeyValue::Integer(7))));
    for unsure in [Some(0), Some(-1), Some(1_001), None] {
        assert_eq!(key.new_row(own, |_| unsure), None, "{unsure:?}");
    }
}

#[test]
fn foreign_keys_that_lead_back_write_other_rows() {
    let cascade = |parent, child| Cascade { parent: name(parent), child: name(child) };
    let by_id = [("id", INTEGER)];
    let all = rows(&["app.own", "app.a", "app.b", "app.c"]);
    let all = with_key(with_key(with_key(all, "app.own", &by_id, true), "app.a", &by_id, true), "app.c", &by_id, true);
    let cascades = vec![
        cascade("app.own", "app.own"),
        cascade("app.a", "app.b"),
        cascade("app.b", "app.a"),
        cascade("app.c", "app.b"),
    ];
    let catalog = TableCatalog::new(&TableRows { cascades, ..all });
    let alone = |name| catalog.writes_alone(&table(name), Some("app"));
    assert_eq!((alone("own"), alone("a"), alone("b"), alone("c")), (false, false, false, true));
    let change = |table| catalog.changed_rows("app", table, Some(&[vec![KeyPart::Integer(1)]].into()));
    assert_eq!(change("own"), WrittenRows::all(keys(&["app.own"])));
    let of_c = change("c");
    assert_eq!((of_c.tables.clone(), of_c.rows.len()), (keys(&["app.c", "app.b", "app.a"]), 1));
    assert!(of_c.rows_of(key("app\0c")).is_some() && of_c.rows_of(key("app\0b")).is_none());
}

#[test]
fn writes_together_leave_no_row_out() {
    let (t, u) = (TableKey(1), TableKey(2));
    let only = |table: TableKey, rows: &[u64]| {
        WrittenRows::only(TableScope::of(vec![table]), table, rows.iter().map(|row| RowKey(*row)).collect())
    };
    let rows = |written: &WrittenRows, table| {
        written.rows_of(table).map(|rows| rows.iter().map(|row| row.0).collect::<Vec<_>>())
    };
    let both = only(t, &[2, 1]).and(&only(t, &[2, 3])).and(&only(u, &[7]));
    assert_eq!((rows(&both, t), rows(&both, u)), (Some(vec![1, 2, 3]), Some(vec![7])));
    let more = both.and(&WrittenRows::all(TableScope::of(vec![u])));
    assert_eq!((rows(&more, t), rows(&more, u)), (Some(vec![1, 2, 3]), None));
    assert_eq!(more.tables, TableScope::of(vec![t, u]));
    assert_eq!(more.and(&WrittenRows::all(TableScope::Any)), WrittenRows::all(TableScope::Any));
    let many: Vec<u64> = (0..ROWS_MAX as u64).collect();
    assert_eq!(rows(&only(t, &many).and(&only(t, &[5])), t).map(|rows| rows.len()), Some(ROWS_MAX));
    assert_eq!(rows(&only(t, &many).and(&only(t, &[ROWS_MAX as u64])), t), None, "they are too many");
}
