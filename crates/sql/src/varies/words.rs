//! Functions and words by what an answer with them depends on.

/// Functions that answer the same for the same arguments and the same session variables.
#[rustfmt::skip]
pub(super) const KNOWN_FUNCTIONS: &[&str] = &[
    "abs", "acos", "adddate", "addtime", "any_value", "ascii", "asin", "atan", "atan2", "avg", "bin", "bin_to_uuid",
    "bit_and", "bit_count", "bit_length", "bit_or", "bit_xor", "cast", "ceil", "ceiling", "char", "char_length",
    "character_length", "coalesce", "concat", "concat_ws", "conv", "convert", "cos", "cot", "count", "crc32",
    "crc32c", "cume_dist", "date", "date_add", "date_format", "date_sub", "datediff", "day", "dayname", "dayofmonth",
    "dayofweek", "dayofyear", "degrees", "dense_rank", "elt", "exp", "export_set", "extract", "field", "find_in_set",
    "first_value", "floor", "format", "from_base64", "from_days", "from_unixtime", "greatest", "group_concat", "hex",
    "hour", "if", "ifnull", "inet6_aton", "inet6_ntoa", "inet_aton", "inet_ntoa", "insert", "instr", "is_ipv4",
    "is_ipv4_compat", "is_ipv4_mapped", "is_ipv6", "is_uuid", "isnull", "json_array", "json_array_append",
    "json_array_insert", "json_arrayagg", "json_compact", "json_contains", "json_contains_path", "json_depth",
    "json_detailed", "json_equals", "json_exists", "json_extract", "json_insert", "json_keys", "json_length",
    "json_loose", "json_merge", "json_merge_patch", "json_merge_preserve", "json_normalize", "json_object",
    "json_objectagg", "json_overlaps", "json_pretty", "json_query", "json_quote", "json_remove", "json_replace",
    "json_schema_valid", "json_search", "json_set", "json_type", "json_unquote", "json_valid", "json_value", "lag",
    "last_day", "last_value", "lcase", "lead", "least", "left", "length", "linestring", "ln", "locate", "log",
    "log10", "log2", "lower", "lpad", "ltrim", "make_set", "makedate", "maketime", "match", "max", "mbrcontains",
    "mbrintersects", "mbrwithin", "md5", "median", "microsecond", "mid", "min", "minute", "mod", "month", "monthname",
    "natural_sort_key", "nth_value", "ntile", "nullif", "nvl", "nvl2", "oct", "octet_length", "ord", "percent_rank",
    "percentile_cont", "percentile_disc", "period_add", "period_diff", "pi", "point", "polygon", "position", "pow",
    "power", "quarter", "quote", "radians", "rank", "regexp_instr", "regexp_like", "regexp_replace", "regexp_substr",
    "repeat", "replace", "reverse", "right", "round", "row_number", "rpad", "rtrim", "sec_to_time", "second",
    "sformat", "sha", "sha1", "sha2", "sign", "sin", "soundex", "space", "sqrt", "st_area", "st_asbinary",
    "st_asgeojson", "st_astext", "st_aswkb", "st_aswkt", "st_buffer", "st_centroid", "st_contains", "st_crosses",
    "st_difference", "st_dimension", "st_disjoint", "st_distance", "st_distance_sphere", "st_endpoint", "st_envelope",
    "st_equals", "st_geomfromgeojson", "st_geomfromtext", "st_geomfromwkb", "st_intersection", "st_intersects",
    "st_isclosed", "st_isempty", "st_isvalid", "st_latitude", "st_length", "st_longitude", "st_numpoints",
    "st_overlaps", "st_pointn", "st_simplify", "st_srid", "st_startpoint", "st_touches", "st_union", "st_within",
    "st_x", "st_y", "std", "stddev", "stddev_pop", "stddev_samp", "str_to_date", "strcmp", "subdate", "substr",
    "substring", "substring_index", "subtime", "sum", "tan", "time", "time_format", "time_to_sec", "timediff",
    "timestampadd", "timestampdiff", "to_base64", "to_char", "to_days", "to_seconds", "trim", "truncate", "ucase",
    "unhex", "upper", "uuid_to_bin", "var_pop", "var_samp", "variance", "week", "weekday", "weekofyear",
    "weight_string", "year", "yearweek",
];

/// Words that may stand before `(` and are no functions; among them types that CAST names.
#[rustfmt::skip]
pub(super) const BEFORE_PARENTHESIS: &[&str] = &[
    "against", "all", "and", "any", "as", "between", "binary", "by", "case", "decimal", "distinct", "div", "else",
    "escape", "except", "exists", "for", "from", "group", "having", "in", "index", "intersect", "interval", "is",
    "join", "key", "like", "limit", "nchar", "not", "numeric", "offset", "on", "or", "order", "over", "partition",
    "primary", "range", "regexp", "rlike", "row", "rows", "select", "set", "some", "then", "union", "using", "values",
    "varchar", "when", "where", "with", "xor",
];

/// Words that give something else for each session without any parentheses, besides those that [`crate::volatile()`] knows; among
/// them `procedure`, behind which a function stands that looks like none.
pub(super) const SESSION_WORDS: &[&str] =
    &["current_user", "current_role", "session_user", "system_user", "rownum", "procedure"];

/// Functions that answer something else for each session or connection, besides those that [`crate::volatile()`] knows.
pub(super) const OF_SESSION: &[&str] = &[
    "user",
    "current_user",
    "session_user",
    "system_user",
    "database",
    "schema",
    "last_insert_id",
    "found_rows",
    "row_count",
    "current_role",
    "ps_current_thread_id",
];
