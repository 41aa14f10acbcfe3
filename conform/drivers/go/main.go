// The driver matrix by Go's driver, go-sql-driver/mysql.
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"database/sql/driver"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"
)

func env(name string) string { return os.Getenv("CONFORM_" + name) }

var (
	database  = env("DATABASE")
	other     = env("OTHER_DATABASE")
	mariadb   = env("FAMILY") == "mariadb"
	// The port as a word of its own: its digits may stand in other values.
	portWord  = regexp.MustCompile(`\b` + env("PORT") + `\b`)
	isolation = map[bool]string{true: "@@tx_isolation", false: "@@transaction_isolation"}[mariadb]
	allBytes  = func() []byte {
		all := make([]byte, 256)
		for index := range all {
			all[index] = byte(index)
		}
		return all
	}()
	background = context.Background()
)

// skip is what a case panics with when the driver has no such thing.
type skip string

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func equal(got, wanted any, what string) {
	a, b := text(got), text(wanted)
	if a != b {
		panic(fmt.Errorf("%s: got %.700s, wanted %.700s", what, a, b))
	}
}

func text(value any) string {
	found, err := json.Marshal(canonical(value))
	must(err)
	return string(found)
}

func canonical(value any) any {
	switch v := value.(type) {
	case []byte:
		v = bytes.ReplaceAll(bytes.ReplaceAll(v, []byte(other), []byte("OTHER")), []byte(database), []byte("DATABASE"))
		if len(v) > 300 {
			sum := sha256.Sum256(v)
			return fmt.Sprintf("bytes of %d: %x", len(v), sum[:8])
		}
		return "0x" + hex.EncodeToString(v)
	case string:
		v = strings.NewReplacer(other, "OTHER", database, "DATABASE").Replace(portWord.ReplaceAllString(v, "PORT"))
		if len(v) > 300 {
			sum := sha256.Sum256([]byte(v))
			return fmt.Sprintf("text of %d: %x", len(v), sum[:8])
		}
		return v
	case time.Time:
		return v.Format(time.RFC3339Nano)
	case []any:
		found := make([]any, len(v))
		for index, item := range v {
			found[index] = canonical(item)
		}
		return found
	case [][]any:
		found := make([]any, len(v))
		for index, item := range v {
			found[index] = canonical(item)
		}
		return found
	case float64, float32:
		return fmt.Sprint(v)
	}
	return value
}

// open gives a pool; change the configuration before it connects.
func open(change func(*mysql.Config)) *sql.DB {
	config := mysql.NewConfig()
	config.User, config.Passwd, config.Net = env("USER"), env("PASSWORD"), "tcp"
	config.Addr, config.DBName = env("HOST")+":"+env("PORT"), database
	config.MaxAllowedPacket = 0
	if change != nil {
		change(config)
	}
	connector, err := mysql.NewConnector(config)
	must(err)
	pool := sql.OpenDB(connector)
	pool.SetMaxOpenConns(10)
	return pool
}

// single is one session.
func single(change func(*mysql.Config)) (*sql.Conn, func()) {
	pool := open(change)
	connection, err := pool.Conn(background)
	must(err)
	return connection, func() { connection.Close(); pool.Close() }
}

type queryer interface {
	QueryContext(context.Context, string, ...any) (*sql.Rows, error)
	ExecContext(context.Context, string, ...any) (sql.Result, error)
}

func read(found *sql.Rows) ([][]any, error) {
	columns, err := found.Columns()
	if err != nil {
		return nil, err
	}
	rows := [][]any{}
	for found.Next() {
		row := make([]any, len(columns))
		places := make([]any, len(columns))
		for index := range row {
			places[index] = &row[index]
		}
		if err := found.Scan(places...); err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, found.Err()
}

func rowsOf(q queryer, query string, arguments ...any) ([][]any, error) {
	found, err := q.QueryContext(background, query, arguments...)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	return read(found)
}

func rows(q queryer, query string, arguments ...any) [][]any {
	found, err := rowsOf(q, query, arguments...)
	must(err)
	return found
}

// one is the first value, as text when the text protocol brought it.
func one(q queryer, query string, arguments ...any) string {
	value := rows(q, query, arguments...)[0][0]
	if raw, ok := value.([]byte); ok {
		return string(raw)
	}
	return fmt.Sprint(value)
}

func do(q queryer, query string, arguments ...any) []any {
	result, err := q.ExecContext(background, query, arguments...)
	must(err)
	affected, _ := result.RowsAffected()
	id, _ := result.LastInsertId()
	return []any{affected, id}
}

func fault(err error) []any {
	var own *mysql.MySQLError
	switch {
	case err == nil:
		return []any{"none"}
	case errors.As(err, &own):
		return []any{own.Number, string(own.SQLState[:]), own.Message}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, driver.ErrBadConn):
		return []any{err.Error()}
	}
	return []any{regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllString(err.Error(), "ADDRESS")}
}

func refused(q queryer, query string, arguments ...any) []any {
	_, err := rowsOf(q, query, arguments...)
	if err == nil {
		panic(fmt.Errorf("there was no error: %s", query))
	}
	return fault(err)
}

func table(q queryer, name, columns string) {
	do(q, "DROP TABLE IF EXISTS "+name)
	do(q, "CREATE TABLE "+name+" ("+columns+") ENGINE=InnoDB DEFAULT CHARSET=utf8mb4")
}

const types = `id INT PRIMARY KEY, ti TINYINT, si SMALLINT UNSIGNED, mi MEDIUMINT, i INT UNSIGNED, bi BIGINT, bu BIGINT UNSIGNED, f FLOAT, d DOUBLE,
	de DECIMAL(40,10), da DATE, tm TIME(6), dt DATETIME(6), ts TIMESTAMP(3) NULL, y YEAR, c CHAR(10), v VARCHAR(200), tx TEXT, vb VARBINARY(256),
	bl LONGBLOB, j JSON, e ENUM('one','two'), s SET('x','y','z'), bt BIT(12), z INT(6) ZEROFILL`
const columns = "id, ti, si, mi, i, bi, bu, f, d, de, da, tm, dt, ts, y, c, v, tx, vb, bl, j, e, s, bt, z"

var typeRows = [][]any{
	{1, 127, 65535, 8388607, int64(4294967295), int64(9223372036854775807), uint64(18446744073709551615), 1.5, 1.7976931348623157e308,
		"123456789012345678901234567890.0123456789", "9999-12-31", "838:59:58.999999", "2038-01-19 03:14:07.999999", "2024-02-29 23:59:59.123",
		2155, "char", "Zürich 🦀 'quoted' \\ back", strings.Repeat("text ", 50), allBytes, bytes.Repeat(allBytes, 40), `{"a": [1, null, "ü🦀"]}`,
		"two", "x,z", nil, 42},
	append([]any{2}, make([]any, 24)...),
	{3, -128, 0, -8388608, 0, int64(-9223372036854775808), 0, -1.25, -0.1, "-0.0000000001", "1000-01-01", "-01:00:01.000000", "1000-01-01 00:00:00.000000",
		"1971-01-01 00:00:00.000", 1901, "", "", "", []byte{}, []byte{}, "[]", "one", "", nil, 0},
}

func typesBy(interpolate bool) any {
	connection, done := single(func(config *mysql.Config) { config.InterpolateParams = interpolate })
	defer done()
	table(connection, "t_types", types)
	for _, row := range typeRows {
		do(connection, "INSERT INTO t_types ("+columns+") VALUES ("+strings.TrimSuffix(strings.Repeat("?, ", 25), ", ")+")", row...)
	}
	do(connection, "UPDATE t_types SET bt = b'101010101010' WHERE id = 1")
	found := rows(connection, "SELECT "+columns+" FROM t_types WHERE id >= ? ORDER BY id", 0)
	equal(len(found), 3, "rows")
	for index, row := range found {
		for _, column := range []int{0, 1, 2, 3, 4, 5, 6, 9, 10, 11, 12, 13, 15, 16, 17, 18, 19} {
			wanted := typeRows[index][column]
			if raw, ok := row[column].([]byte); ok {
				if binary, ok := wanted.([]byte); ok {
					equal(raw, binary, fmt.Sprint("column ", column))
				} else {
					equal(string(raw), fmt.Sprint(wanted), fmt.Sprint("column ", column))
				}
			} else if row[column] != nil || wanted != nil {
				equal(fmt.Sprint(row[column]), fmt.Sprint(wanted), fmt.Sprint("column ", column))
			}
		}
	}
	parsed, done2 := single(func(config *mysql.Config) { config.ParseTime, config.InterpolateParams = true, interpolate })
	defer done2()
	return []any{found, rows(parsed, "SELECT da, dt, ts FROM t_types WHERE id >= ? ORDER BY id FOR UPDATE", 0), rows(parsed, "SELECT ? + 1, CONCAT(?, 'x'), ? IS NULL", 41, "y", nil)}
}

func numbers(q queryer, count int, name string) {
	table(q, name, "id INT PRIMARY KEY, v VARCHAR(100)")
	do(q, "INSERT INTO "+name+" VALUES (1, REPEAT('x', 80))")
	for have := 1; have < count; have *= 2 {
		do(q, fmt.Sprintf("INSERT INTO %s SELECT id + %d, v FROM %s WHERE id + %d <= %d", name, have, name, have, count))
	}
}

func large(size int) any {
	connection, done := single(nil)
	defer done()
	long := strings.Repeat("0123456789abcdef", size/16)
	found := rows(connection, "SELECT LENGTH(?), ?", long, long[:size/2])
	equal(fmt.Sprint(found[0][0]), fmt.Sprint(size), "length")
	if string(found[0][1].([]byte)) != long[:size/2] {
		panic(errors.New("another value came back"))
	}
	if one(connection, fmt.Sprintf("SELECT REPEAT('0123456789abcdef', %d)", size/16)) != long {
		panic(errors.New("another value came"))
	}
	straight, done2 := single(func(config *mysql.Config) { config.InterpolateParams = true })
	defer done2()
	equal(one(straight, "SELECT LENGTH(?)", long), fmt.Sprint(size), "length")
	return size
}

func killed(connection, killer *sql.Conn, id, query string) []any {
	outcome := make(chan []any, 1)
	go func() {
		found, err := rowsOf(connection, query)
		if err != nil {
			outcome <- fault(err)
		} else {
			outcome <- []any{"value", found}
		}
	}()
	time.Sleep(700 * time.Millisecond)
	do(killer, "KILL QUERY "+id)
	select {
	case found := <-outcome:
		return found
	case <-time.After(15 * time.Second):
		panic(fmt.Errorf("not ended: %s", query))
	}
}

var cases = map[string]func() any{
	"connect": func() any {
		connection, done := single(func(config *mysql.Config) {
			must(config.Apply(mysql.Charset("utf8mb4", "")))
			config.Params = map[string]string{"sql_mode": "'STRICT_TRANS_TABLES'", "group_concat_max_len": "4096"}
		})
		defer done()
		must(connection.PingContext(background))
		seen := rows(connection, "SELECT CURRENT_USER(), DATABASE(), @@character_set_client, @@character_set_results, @@collation_connection, @@autocommit, @@sql_mode, @@group_concat_max_len, @@version, "+isolation)
		wrong := open(func(config *mysql.Config) { config.Passwd = "wrong" })
		nowhere := open(func(config *mysql.Config) { config.DBName = "no_such_schema" })
		return []any{seen, fault(wrong.Ping())[:2], fault(nowhere.Ping())}
	},
	"types_text":     func() any { return typesBy(true) },
	"types_prepared": func() any { return typesBy(false) },
	"metadata": func() any {
		connection, done := single(nil)
		defer done()
		table(connection, "t_types", types)
		seen := []any{}
		for _, query := range []string{"SELECT " + columns + " FROM t_types", "SELECT t.id AS number, COUNT(*) c, MAX(v) FROM t_types AS t GROUP BY t.id", "SELECT 1 AS one, 'ü' AS `ä b`", "SHOW COLUMNS FROM t_types"} {
			found, err := connection.QueryContext(background, query)
			must(err)
			kinds, err := found.ColumnTypes()
			must(err)
			for _, kind := range kinds {
				nullable, _ := kind.Nullable()
				precision, scale, _ := kind.DecimalSize()
				seen = append(seen, []any{kind.Name(), kind.DatabaseTypeName(), nullable, precision, scale, kind.ScanType().String()})
			}
			found.Close()
		}
		return seen
	},
	"prepared_many": func() any {
		connection, done := single(nil)
		defer done()
		statements := make([]*sql.Stmt, 300)
		for number := range statements {
			statement, err := connection.PrepareContext(background, fmt.Sprintf("SELECT ? AS a%d, %d AS n", number, number))
			must(err)
			statements[number] = statement
		}
		for number := 299; number >= 0; number -= 7 {
			for _, value := range []any{number, nil, "text", 5.5} {
				found, err := statements[number].Query(value)
				must(err)
				got, err := read(found)
				must(err)
				found.Close()
				wanted := any(nil)
				if value != nil {
					wanted = fmt.Sprint(value)
				}
				if raw, ok := got[0][0].([]byte); ok {
					got[0][0] = string(raw)
				} else if got[0][0] != nil {
					got[0][0] = fmt.Sprint(got[0][0])
				}
				if mariadb || value != "text" { // MySQL keeps the type of the first execution.
					equal([]any{got[0][0], got[0][1]}, []any{wanted, number}, "echo")
				}
			}
		}
		table(connection, "t_many", "id INT PRIMARY KEY, v VARCHAR(40)")
		do(connection, "INSERT INTO t_many VALUES (?, ?)", 7, "v7")
		statement, err := connection.PrepareContext(background, "SELECT * FROM t_many WHERE id = ?")
		must(err)
		seen := []any{}
		for _, change := range []string{"SELECT 1", "ALTER TABLE t_many ADD COLUMN w INT DEFAULT 7", "ALTER TABLE t_many DROP COLUMN v"} {
			rows(connection, "SELECT 1")
			do(connection, change)
			found, err := statement.Query(7)
			must(err)
			got, err := read(found)
			must(err)
			found.Close()
			seen = append(seen, got)
		}
		for _, statement := range statements {
			must(statement.Close())
		}
		equal(one(connection, "SELECT 1"), "1", "after")
		return seen
	},
	"sql_prepare": func() any {
		connection, done := single(nil)
		defer done()
		do(connection, "PREPARE twice FROM 'SELECT ? * 2'")
		do(connection, "SET @n = 21")
		seen := []any{rows(connection, "EXECUTE twice USING @n")}
		do(connection, "SET @text = CONCAT('SELECT ', 1 + 1, ' AS two')")
		do(connection, "PREPARE other FROM @text")
		seen = append(seen, rows(connection, "EXECUTE other"))
		do(connection, "DEALLOCATE PREPARE twice")
		return append(seen, refused(connection, "EXECUTE twice USING @n"))
	},
	"cursor_fetch": func() any { panic(skip("the driver has no server-side cursors")) },
	"unbuffered": func() any {
		connection, done := single(nil)
		defer done()
		numbers(connection, 20000, "t_numbers")
		total := 0
		found, err := connection.QueryContext(background, "SELECT id, v FROM t_numbers ORDER BY id")
		must(err)
		for found.Next() {
			var id int
			var v string
			must(found.Scan(&id, &v))
			total += id
			if id%5000 == 0 {
				time.Sleep(50 * time.Millisecond)
			}
		}
		must(found.Close())
		equal(total, 20000*20001/2, "sum")
		// Left halfway: the driver reads the rest, or a cancelled context closes the connection.
		found, err = connection.QueryContext(background, "SELECT id, v FROM t_numbers ORDER BY id")
		must(err)
		found.Next()
		must(found.Close())
		last := one(connection, "SELECT MAX(id) FROM t_numbers")
		limited, cancel := context.WithCancel(background)
		found, err = connection.QueryContext(limited, "SELECT id, v FROM t_numbers ORDER BY id")
		must(err)
		found.Next()
		cancel()
		found.Close()
		return []any{total, last}
	},
	"batch": func() any {
		pool := open(nil)
		defer pool.Close()
		table(pool, "t_batch", "id INT AUTO_INCREMENT PRIMARY KEY, u INT UNIQUE, v VARCHAR(100), b BLOB")
		work, err := pool.BeginTx(background, nil)
		must(err)
		statement, err := work.Prepare("INSERT INTO t_batch (u, v, b) VALUES (?, ?, ?)")
		must(err)
		for number := range 1000 {
			var v any = fmt.Sprint("v", number)
			if number%10 == 0 {
				v = nil
			}
			_, err := statement.Exec(number, v, allBytes[:number%100])
			must(err)
		}
		_, err = statement.Exec(5, "again", nil)
		failed := fault(err)
		must(work.Commit())
		return []any{failed, rows(pool, "SELECT COUNT(*), SUM(v IS NULL), SUM(LENGTH(b)), MIN(id), MAX(u) FROM t_batch")}
	},
	"local_infile": func() any {
		file := filepath.Join(env("SCRATCH"), "load-go.csv")
		content := strings.Builder{}
		for number := range 20000 {
			fmt.Fprintf(&content, "%d,value ü %d %s\n", number, number, strings.Repeat("x", 60))
		}
		must(os.WriteFile(file, []byte(content.String()), 0o600))
		mysql.RegisterLocalFile(file)
		mysql.RegisterLocalFile("/no/such/file")
		connection, done := single(nil)
		defer done()
		table(connection, "t_load", "id INT PRIMARY KEY, v VARCHAR(100)")
		load := "LOAD DATA LOCAL INFILE '%s' INTO TABLE t_load CHARACTER SET utf8mb4 FIELDS TERMINATED BY ','"
		count := do(connection, fmt.Sprintf(load, file))
		seen := rows(connection, "SELECT COUNT(*), SUM(id), MAX(v) FROM t_load")
		equal(count[0], 20000, "rows")
		_, err := connection.ExecContext(background, fmt.Sprintf(load, "/no/such/file"))
		return []any{count, seen, fault(err), one(connection, "SELECT COUNT(*) FROM t_load")}
	},
	"kill_query": func() any {
		connection, done := single(nil)
		defer done()
		killer, done2 := single(nil)
		defer done2()
		id := one(connection, "SELECT CONNECTION_ID()")
		sleep := killed(connection, killer, id, "SELECT SLEEP(20)")
		numbers(connection, 3000, "t_kill")
		work := killed(connection, killer, id, "SELECT COUNT(*) FROM t_kill a, t_kill b, t_kill c WHERE a.v <> CONCAT(b.v, c.id)")
		write := killed(connection, killer, id, "UPDATE t_kill SET v = IF(SLEEP(20), 'a', 'b') WHERE id = 1")
		equal([]any{work[0], write[0]}, []any{1317, 1317}, "errors")
		equal(one(connection, "SELECT 1"), "1", "after")
		return []any{sleep, work, write, refused(killer, "KILL QUERY 999999999")}
	},
	"kill_connection": func() any {
		connection, done := single(nil)
		defer done()
		killer, done2 := single(nil)
		defer done2()
		id := one(connection, "SELECT CONNECTION_ID()")
		do(killer, "KILL "+id)
		time.Sleep(300 * time.Millisecond)
		_, err := rowsOf(connection, "SELECT 1")
		again := refused(killer, "KILL "+id)
		again[2] = strings.ReplaceAll(again[2].(string), id, "ID")
		return []any{err != nil, again}
	},
	"timeout": func() any {
		pool := open(nil)
		defer pool.Close()
		limited, cancel := context.WithTimeout(background, 700*time.Millisecond)
		defer cancel()
		started := time.Now()
		_, err := pool.ExecContext(limited, "DO SLEEP(15)")
		if time.Since(started) > 5*time.Second {
			panic(errors.New("the deadline was not kept"))
		}
		slow := open(func(config *mysql.Config) { config.ReadTimeout = 700 * time.Millisecond })
		defer slow.Close()
		_, late := rowsOf(slow, "SELECT SLEEP(15)")
		return []any{fault(err), late != nil, one(pool, "SELECT 1")}
	},
	"tls": func() any {
		authority, err := os.ReadFile(env("CA"))
		must(err)
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(authority)
		must(mysql.RegisterTLSConfig("conform", &tls.Config{RootCAs: roots, ServerName: "127.0.0.1"}))
		connection, done := single(func(config *mysql.Config) { config.TLSConfig = "conform" })
		defer done()
		equal(one(connection, "SELECT REPEAT('tls', 100000)"), strings.Repeat("tls", 100000), "value")
		return true
	},
	"compression": func() any {
		connection, done := single(func(config *mysql.Config) { must(config.Apply(mysql.EnableCompression(true))) })
		defer done()
		long := strings.Repeat("compressible ", 80000)
		equal(one(connection, "SELECT ?", long), long, "value")
		noise := make([]byte, 1<<19)
		rand.Read(noise)
		equal(one(connection, "SELECT HEX(?)", noise), strings.ToUpper(hex.EncodeToString(noise)), "noise")
		numbers(connection, 3000, "t_numbers")
		return rows(connection, "SELECT COUNT(*), MAX(id) FROM t_numbers")
	},
	"change_user": func() any { panic(skip("the driver has no change of user")) },
	"reset":       func() any { panic(skip("the driver has no reset")) },
	"multi_statements": func() any {
		connection, done := single(func(config *mysql.Config) { config.MultiStatements = true })
		defer done()
		table(connection, "t_multi", "id INT PRIMARY KEY, v INT")
		found, err := connection.QueryContext(background, "INSERT INTO t_multi VALUES (1, 1), (2, 2); SELECT * FROM t_multi ORDER BY id; UPDATE t_multi SET v = 3; SELECT SUM(v) FROM t_multi; SET @x = 4; SELECT @x")
		must(err)
		seen := []any{}
		for {
			got, err := read(found)
			must(err)
			seen = append(seen, got)
			if !found.NextResultSet() {
				break
			}
		}
		found.Close()
		found, err = connection.QueryContext(background, "SELECT 1; SELECT * FROM no_such_table; SELECT 3")
		must(err)
		for found.Next() {
		}
		more := found.NextResultSet()
		failed := fault(found.Err())
		found.Close()
		return []any{seen, more, failed, rows(connection, "SELECT @x, COUNT(*) FROM t_multi")}
	},
	"procedures": func() any {
		connection, done := single(func(config *mysql.Config) { config.MultiStatements = true })
		defer done()
		table(connection, "t_calls", "n INT")
		do(connection, "DROP PROCEDURE IF EXISTS p_results")
		do(connection, "CREATE PROCEDURE p_results(IN n INT) BEGIN SELECT n AS first; SELECT n + 1 AS second, 'text' AS t; INSERT INTO t_calls VALUES (n); SELECT COUNT(*) FROM t_calls; END")
		seen := []any{}
		for _, arguments := range [][]any{{"CALL p_results(5)"}, {"CALL p_results(?)", 6}, {"CALL p_results(?)", 7}} {
			found, err := connection.QueryContext(background, arguments[0].(string), arguments[1:]...)
			must(err)
			for {
				got, err := read(found)
				must(err)
				seen = append(seen, got)
				if !found.NextResultSet() {
					break
				}
			}
			found.Close()
		}
		do(connection, "DROP PROCEDURE IF EXISTS p_fails")
		do(connection, "CREATE PROCEDURE p_fails() BEGIN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'mine', MYSQL_ERRNO = 5001; END")
		return append(seen, refused(connection, "CALL p_fails()"), one(connection, "SELECT COUNT(*) FROM t_calls"))
	},
	"out_params": func() any {
		connection, done := single(nil)
		defer done()
		do(connection, "DROP PROCEDURE IF EXISTS p_out")
		do(connection, "CREATE PROCEDURE p_out(IN a INT, OUT b INT, INOUT c VARCHAR(20)) BEGIN SET b = a * 2; SET c = CONCAT(c, '!'); END")
		do(connection, "SET @c = 'x'")
		do(connection, "CALL p_out(?, @b, @c)", 4)
		seen := rows(connection, "SELECT @b, @c")
		equal(seen, [][]any{{8, []byte("x!")}}, "values")
		return seen
	},
	"large_17mb": func() any { return large(17 << 20) },
	"large_40mb": func() any { return large(40 << 20) },
	"charset": func() any {
		connection, done := single(func(config *mysql.Config) { config.Collation = "utf8mb4_unicode_ci" })
		defer done()
		table(connection, "t_chars", "id INT PRIMARY KEY, u VARCHAR(50), l VARCHAR(50) CHARACTER SET latin1, b VARBINARY(50)")
		do(connection, "INSERT INTO t_chars VALUES (1, ?, ?, ?)", "ü🦀漢字", "äöüÿ", []byte{255, 0, 128})
		seen := rows(connection, "SELECT u, l, b, HEX(u), HEX(l), HEX(b), @@collation_connection FROM t_chars WHERE u = ?", "ü🦀漢字")
		equal(seen[0][3], []byte("C3BCF09FA680E6BCA2E5AD97"), "bytes")
		latin, done2 := single(func(config *mysql.Config) { must(config.Apply(mysql.Charset("latin1", ""))) })
		defer done2()
		do(latin, "INSERT INTO t_chars VALUES (2, ?, ?, ?)", "\xe4\xf6\xfc", "\xc4\xd6\xdc", []byte{0xe4})
		return []any{seen, rows(latin, "SELECT u, l, HEX(u), HEX(l), @@character_set_client, @@character_set_results, @@collation_connection FROM t_chars WHERE id = 2")}
	},
	"transactions": func() any {
		pool := open(nil)
		defer pool.Close()
		table(pool, "t_trx", "id INT PRIMARY KEY, v INT")
		seen := []any{}
		work, err := pool.BeginTx(background, nil)
		must(err)
		do(work, "INSERT INTO t_trx VALUES (?, 1)", 1)
		seen = append(seen, one(work, "SELECT COUNT(*) FROM t_trx"), one(pool, "SELECT COUNT(*) FROM t_trx"))
		must(work.Rollback())
		seen = append(seen, one(pool, "SELECT COUNT(*) FROM t_trx"))
		work, err = pool.BeginTx(background, nil)
		must(err)
		do(work, "INSERT INTO t_trx VALUES (?, 2)", 2)
		do(work, "SAVEPOINT a")
		do(work, "INSERT INTO t_trx VALUES (?, 3)", 3)
		do(work, "ROLLBACK TO SAVEPOINT a")
		do(work, "INSERT INTO t_trx VALUES (4, 4)")
		seen = append(seen, refused(work, "INSERT INTO t_trx VALUES (?, 2)", 2))
		must(work.Commit())
		equal(seen[:3], []any{"1", "0", "0"}, "counts")
		return append(seen, rows(pool, "SELECT id FROM t_trx ORDER BY id FOR UPDATE"))
	},
	"isolation": func() any {
		pool := open(nil)
		defer pool.Close()
		table(pool, "t_iso", "id INT PRIMARY KEY, v INT")
		do(pool, "INSERT INTO t_iso VALUES (1, 1)")
		seen := []any{}
		for _, level := range []sql.IsolationLevel{sql.LevelReadUncommitted, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable} {
			work, err := pool.BeginTx(background, &sql.TxOptions{Isolation: level})
			must(err)
			do(work, "UPDATE t_iso SET v = v + 1")
			seen = append(seen, one(work, "SELECT v FROM t_iso"))
			must(work.Commit())
		}
		work, err := pool.BeginTx(background, &sql.TxOptions{ReadOnly: true})
		must(err)
		seen = append(seen, refused(work, "UPDATE t_iso SET v = 9"))
		must(work.Rollback())
		equal(seen[:4], []any{"2", "3", "4", "5"}, "values")
		return append(seen, one(pool, "SELECT "+isolation))
	},
	"autocommit": func() any {
		connection, done := single(func(config *mysql.Config) { config.Params = map[string]string{"autocommit": "0"} })
		defer done()
		observer, done2 := single(nil)
		defer done2()
		table(connection, "t_auto", "id INT PRIMARY KEY")
		seen := []any{one(connection, "SELECT COUNT(*) FROM t_auto")}
		do(observer, "INSERT INTO t_auto VALUES (1)")
		seen = append(seen, one(connection, "SELECT COUNT(*) FROM t_auto"))
		do(connection, "COMMIT")
		seen = append(seen, one(connection, "SELECT COUNT(*) FROM t_auto FOR UPDATE"))
		do(connection, "INSERT INTO t_auto VALUES (2)")
		do(connection, "ROLLBACK")
		do(connection, "SET autocommit = 1")
		seen = append(seen, one(connection, "SELECT COUNT(*) FROM t_auto"))
		equal(seen, []any{"0", "0", "1", "1"}, "counts")
		return seen
	},
	"pool": func() any {
		pool := open(func(config *mysql.Config) { config.CheckConnLiveness = true })
		defer pool.Close()
		pool.SetMaxOpenConns(6)
		pool.SetMaxIdleConns(3)
		table(pool, "t_pool", "id INT AUTO_INCREMENT PRIMARY KEY, worker INT, n INT")
		failures := make(chan string, 1000)
		group := sync.WaitGroup{}
		for worker := range 8 {
			group.Add(1)
			go func() {
				defer group.Done()
				for number := range 25 {
					connection, err := pool.Conn(background)
					if err != nil {
						failures <- err.Error()
						return
					}
					mine := fmt.Sprint(worker*1000 + number)
					if _, err := connection.ExecContext(background, "SET @mine = "+mine); err != nil {
						failures <- err.Error()
					}
					if _, err := connection.ExecContext(background, "INSERT INTO t_pool (worker, n) VALUES (?, ?)", worker, number); err != nil {
						failures <- err.Error()
					}
					if got, err := rowsOf(connection, "SELECT @mine"); err != nil || text(got[0][0]) != mine {
						failures <- fmt.Sprint("worker read ", text(got), err)
					}
					if got, err := rowsOf(connection, "SELECT COUNT(*) FROM t_pool WHERE worker = ?", worker); err != nil || text(got[0][0]) != fmt.Sprint(number+1) {
						failures <- fmt.Sprint("worker sees ", text(got), err)
					}
					connection.Close()
				}
			}()
		}
		group.Wait()
		select {
		case failure := <-failures:
			panic(errors.New(failure))
		default:
		}
		return one(pool, "SELECT COUNT(*) FROM t_pool FOR UPDATE")
	},
	"session_state": func() any {
		connection, done := single(nil)
		defer done()
		do(connection, "SET sql_mode = CONCAT(@@sql_mode, ',NO_BACKSLASH_ESCAPES')")
		do(connection, "SET sql_mode = REPLACE(@@sql_mode, 'NO_BACKSLASH_ESCAPES', '')")
		do(connection, "SET SESSION group_concat_max_len = 2048, time_zone = '+02:00', @a = 1, @b = 'text', @c = NULL, @d = 1.5")
		seen := []any{rows(connection, "SELECT @@group_concat_max_len, @@time_zone, @a, @b, @c, @d, @@sql_mode")}
		for range 20 {
			one(connection, "SELECT ?", 1)
		}
		seen = append(seen, rows(connection, "SELECT @@group_concat_max_len, @@time_zone, @a, @b, @c, @d, ?", 1))
		do(connection, "SET @e = ?", "by parameter")
		do(connection, "SELECT 7, 8 INTO @x, @y")
		seen = append(seen, rows(connection, "SELECT @x + @y, @e"))
		do(connection, "USE "+other)
		seen = append(seen, one(connection, "SELECT DATABASE()"))
		do(connection, "USE "+database)
		return append(seen, one(connection, "SELECT DATABASE()"))
	},
	"temp_tables": func() any {
		connection, done := single(nil)
		defer done()
		do(connection, "CREATE TEMPORARY TABLE t_temp (id INT PRIMARY KEY, v VARCHAR(20))")
		do(connection, "INSERT INTO t_temp VALUES (?, ?), (2, ?)", 1, "a", "b")
		seen := []any{one(connection, "SELECT COUNT(*) FROM t_temp"), rows(connection, "SELECT v FROM t_temp WHERE id = ?", 2), refused(connection, "INSERT INTO t_temp VALUES (?, 'dup')", 1)}
		do(connection, "DROP TEMPORARY TABLE t_temp")
		return append(seen, refused(connection, "SELECT * FROM t_temp"))
	},
	"own_writes": func() any {
		connection, done := single(nil)
		defer done()
		table(connection, "t_own", "id INT PRIMARY KEY, v INT")
		for number := range 200 {
			do(connection, "INSERT INTO t_own VALUES (?, 0)", number)
			equal(one(connection, "SELECT COUNT(*) FROM t_own"), fmt.Sprint(number+1), "rows after an insert")
			do(connection, "UPDATE t_own SET v = v + 1 WHERE id = ?", number)
			equal(one(connection, "SELECT v FROM t_own WHERE id = ?", number), "1", "a value after its update")
		}
		return 200
	},
	"insert_id": func() any {
		connection, done := single(nil)
		defer done()
		table(connection, "t_ids", "id INT AUTO_INCREMENT PRIMARY KEY, u INT UNIQUE, v INT")
		seen := []any{do(connection, "INSERT INTO t_ids (u, v) VALUES (1, ?), (2, 2), (3, 3)", 1)}
		seen = append(seen, rows(connection, "SELECT LAST_INSERT_ID(), 1"), rows(connection, "SELECT LAST_INSERT_ID()"))
		seen = append(seen, do(connection, "INSERT INTO t_ids (u, v) VALUES (2, 9) ON DUPLICATE KEY UPDATE v = 9"), one(connection, "SELECT ROW_COUNT()"))
		seen = append(seen, do(connection, "UPDATE t_ids SET v = 9 WHERE u = ?", 2), do(connection, "REPLACE INTO t_ids (u, v) VALUES (3, 1)"))
		rows(connection, "SELECT SQL_CALC_FOUND_ROWS id FROM t_ids LIMIT 1")
		seen = append(seen, one(connection, "SELECT FOUND_ROWS()"))
		found, done2 := single(func(config *mysql.Config) { config.ClientFoundRows = true })
		defer done2()
		return append(seen, do(found, "UPDATE t_ids SET v = 9 WHERE u = 2"))
	},
	"locks": func() any {
		connection, done := single(nil)
		defer done()
		second, done2 := single(nil)
		name := "lock_" + database
		table(connection, "t_lock", "id INT PRIMARY KEY")
		seen := []any{one(connection, "SELECT GET_LOCK(?, 5)", name), one(second, "SELECT GET_LOCK(?, 0)", name), one(connection, "SELECT RELEASE_LOCK(?)", name), one(second, "SELECT GET_LOCK(?, 5)", name)}
		done2()
		seen = append(seen, one(connection, "SELECT GET_LOCK(?, 5)", name))
		do(connection, "LOCK TABLES t_lock WRITE")
		seen = append(seen, refused(connection, "SELECT * FROM t_types"))
		do(connection, "INSERT INTO t_lock VALUES (?)", 1)
		seen = append(seen, one(connection, "SELECT COUNT(*) FROM t_lock"))
		do(connection, "UNLOCK TABLES")
		return seen
	},
	"errors": func() any {
		connection, done := single(nil)
		defer done()
		table(connection, "t_err", "id INT PRIMARY KEY, v VARCHAR(3) NOT NULL, n TINYINT")
		do(connection, "INSERT INTO t_err VALUES (1, 'a', 1)")
		seen := []any{}
		for _, query := range []string{"INSERT INTO t_err VALUES (1, 'b', 1)", "SELEC 1", "SELECT * FROM no_such_table", "SELECT no_such_column FROM t_err", "INSERT INTO t_err VALUES (2, NULL, 1)",
			"INSERT INTO t_err VALUES (2, 'too long', 1)", "INSERT INTO t_err VALUES (2, 'a', 1000)", "SELECT no_such_function(1)", "CALL no_such_procedure()", "USE no_such_schema",
			"SET no_such_variable = 1", "CREATE TABLE t_err (id INT)", "DROP TABLE no_such_table", "SELECT 'ü' + no_such_column", ""} {
			seen = append(seen, refused(connection, query))
		}
		for _, query := range []string{"INSERT INTO t_err VALUES (?, 'b', 1)", "SELECT * FROM no_such_table WHERE id = ?", "SELEC ?"} {
			seen = append(seen, refused(connection, query, 1))
		}
		return append(seen, rows(connection, "SELECT COUNT(*), DATABASE() FROM t_err"))
	},
	"warnings": func() any {
		connection, done := single(nil)
		defer done()
		do(connection, "SET sql_mode = ''")
		table(connection, "t_warn", "id INT PRIMARY KEY, v VARCHAR(3), n TINYINT")
		do(connection, "INSERT INTO t_warn VALUES (1, 'too long', 1000)")
		seen := []any{rows(connection, "SHOW WARNINGS")}
		do(connection, "INSERT INTO t_warn VALUES (2, ?, ?)", "too long", 1000)
		seen = append(seen, rows(connection, "SHOW WARNINGS"))
		do(connection, "DROP TABLE IF EXISTS no_such_table")
		return append(seen, rows(connection, "SHOW WARNINGS"))
	},
	"habits": func() any {
		// Each Exec with arguments is prepare, execute, close; the pool looks at the socket before it uses a
		// connection again, where a byte that nobody asked for means a dead connection.
		pool := open(func(config *mysql.Config) { config.RejectReadOnly = true })
		defer pool.Close()
		pool.SetMaxOpenConns(1)
		id := one(pool, "SELECT CONNECTION_ID()")
		for number := range 500 {
			equal(one(pool, "SELECT ? + 0", number), fmt.Sprint(number), "echo")
		}
		time.Sleep(1500 * time.Millisecond)
		equal(one(pool, "SELECT CONNECTION_ID()"), id, "the connection after a pause")
		return true
	},
}

func run(name string, only []string) {
	if len(only) > 0 && !strings.Contains(","+strings.Join(only, ",")+",", ","+name+",") {
		return
	}
	started := time.Now()
	line := map[string]any{"case": name}
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		defer func() {
			switch trouble := recover().(type) {
			case nil:
			case skip:
				line["status"], line["reason"] = "skip", string(trouble)
			default:
				where := regexp.MustCompile(`main\.go:\d+`).FindAllString(string(debug.Stack()), 8)
				line["status"], line["error"] = "fail", fmt.Sprintf("%v %v", trouble, where)
			}
		}()
		work := cases[name]
		if work == nil {
			panic(errors.New("the driver's program has no such case"))
		}
		seen := text(work())
		sum := sha256.Sum256([]byte(seen))
		line["status"], line["digest"], line["seen"] = "ok", hex.EncodeToString(sum[:8]), seen[:min(len(seen), 4000)]
	}()
	select {
	case <-finished:
	case <-time.After(60 * time.Second):
		line = map[string]any{"case": name, "status": "fail", "error": "no end within 60 s"}
	}
	line["ms"] = time.Since(started).Milliseconds()
	out, _ := json.Marshal(line)
	fmt.Println(string(out))
}

func main() {
	list, err := os.ReadFile(env("CASES"))
	must(err)
	only := []string{}
	if env("ONLY") != "" {
		only = strings.Split(env("ONLY"), ",")
	}
	mysql.SetLogger(&mysql.NopLogger{})
	for _, match := range regexp.MustCompile(`(?m)^name = "(.*)"$`).FindAllStringSubmatch(string(list), -1) {
		run(match[1], only)
	}
}
