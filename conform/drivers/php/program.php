<?php
// The driver matrix by PHP's drivers: `php program.php mysqli|pdo`.

$name = $argv[1];
function env(string $name): string { return getenv("CONFORM_$name") ?: ''; }

class Skip extends Exception {}

function canonical(mixed $value): mixed
{
    if (is_array($value)) return array_map('canonical', $value);
    if (is_float($value)) return 'float ' . var_export($value, true);
    if (is_object($value)) return canonical((array) $value);
    if (!is_string($value)) return $value;
    $value = str_replace([env('OTHER_DATABASE'), env('DATABASE')], ['OTHER', 'DATABASE'], $value);
    // As a word of its own: its digits may stand in other values. Without the u modifier it takes any bytes.
    $value = preg_replace('/\\b' . env('PORT') . '\\b/', 'PORT', $value);
    if (strlen($value) > 300) return 'text of ' . strlen($value) . ': ' . substr(hash('sha256', $value), 0, 16);
    return preg_match('//u', $value) ? $value : '0x' . bin2hex($value);
}

function text(mixed $value): string { return json_encode(canonical($value), JSON_THROW_ON_ERROR); }

function equal(mixed $got, mixed $wanted, string $what = ''): void
{
    if (text($got) !== text($wanted)) throw new Exception(substr("$what: got " . text($got) . ', wanted ' . text($wanted), 0, 900));
}

/** What both drivers do alike. */
interface Driver
{
    public function connect(array $options = []): void;
    public function rows(string $sql, array $values = []): array;
    public function run(string $sql, array $values = []): int;
    public function all(string $sql): array;
    public function id(): int;
    public function insertId(): int;
    public function begin(): void;
    public function commit(): void;
    public function rollback(): void;
    public function close(): void;
    public function stream(string $sql): iterable;
}

class Mysqli_ implements Driver
{
    public ?mysqli $raw = null;

    public function connect(array $o = []): void
    {
        mysqli_report(MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT);
        $this->raw = mysqli_init();
        $flags = 0;
        if ($o['infile'] ?? false) $this->raw->options(MYSQLI_OPT_LOCAL_INFILE, 1);
        if ($o['native'] ?? false) $this->raw->options(MYSQLI_OPT_INT_AND_FLOAT_NATIVE, 1);
        if ($o['timeout'] ?? 0) $this->raw->options(MYSQLI_OPT_READ_TIMEOUT, $o['timeout']);
        if ($o['compress'] ?? false) $flags |= MYSQLI_CLIENT_COMPRESS;
        if ($o['found'] ?? false) $flags |= MYSQLI_CLIENT_FOUND_ROWS;
        if ($o['tls'] ?? false) {
            $this->raw->ssl_set(null, null, env('CA'), null, null);
            $flags |= MYSQLI_CLIENT_SSL;
        }
        $host = ($o['persistent'] ?? false) ? 'p:' . env('HOST') : env('HOST');
        $this->raw->real_connect($host, env('USER'), $o['password'] ?? env('PASSWORD'), $o['database'] ?? env('DATABASE'), (int) env('PORT'), null, $flags);
        $this->raw->set_charset($o['charset'] ?? 'utf8mb4');
    }

    public function rows(string $sql, array $values = []): array
    {
        if (!$values) return $this->raw->query($sql)->fetch_all();
        $statement = $this->raw->prepare($sql);
        $statement->execute($values);
        $found = $statement->get_result()->fetch_all();
        $statement->close();
        return $found;
    }

    public function run(string $sql, array $values = []): int
    {
        if (!$values) {
            $this->raw->query($sql);
            return $this->raw->affected_rows;
        }
        $statement = $this->raw->prepare($sql);
        $statement->execute($values);
        return $statement->affected_rows;
    }

    public function all(string $sql): array
    {
        $found = [];
        $this->raw->multi_query($sql);
        do {
            $result = $this->raw->store_result();
            $found[] = $result ? $result->fetch_all() : $this->raw->affected_rows;
        } while ($this->raw->more_results() && $this->raw->next_result());
        return $found;
    }

    public function id(): int { return $this->raw->thread_id; }
    public function insertId(): int { return (int) $this->raw->insert_id; }
    public function begin(): void { $this->raw->begin_transaction(); }
    public function commit(): void { $this->raw->commit(); }
    public function rollback(): void { $this->raw->rollback(); }
    public function close(): void { $this->raw->close(); }

    public function stream(string $sql): iterable
    {
        $result = $this->raw->query($sql, MYSQLI_USE_RESULT);
        while ($row = $result->fetch_row()) yield $row;
        $result->free();
    }
}

class Pdo_ implements Driver
{
    public ?PDO $raw = null;

    public function connect(array $o = []): void
    {
        $options = [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION, PDO::ATTR_EMULATE_PREPARES => $o['emulate'] ?? false, PDO::ATTR_DEFAULT_FETCH_MODE => PDO::FETCH_NUM];
        if ($o['infile'] ?? false) $options[PDO::MYSQL_ATTR_LOCAL_INFILE] = true;
        if ($o['compress'] ?? false) $options[PDO::MYSQL_ATTR_COMPRESS] = true;
        if ($o['found'] ?? false) $options[PDO::MYSQL_ATTR_FOUND_ROWS] = true;
        if ($o['persistent'] ?? false) $options[PDO::ATTR_PERSISTENT] = true;
        if ($o['tls'] ?? false) $options[PDO::MYSQL_ATTR_SSL_CA] = env('CA');
        if ($o['init'] ?? '') $options[PDO::MYSQL_ATTR_INIT_COMMAND] = $o['init'];
        $charset = $o['charset'] ?? 'utf8mb4';
        $this->raw = new PDO('mysql:host=' . env('HOST') . ';port=' . env('PORT') . ';dbname=' . ($o['database'] ?? env('DATABASE')) . ";charset=$charset", env('USER'), $o['password'] ?? env('PASSWORD'), $options);
    }

    public function rows(string $sql, array $values = []): array
    {
        $statement = $values ? $this->raw->prepare($sql) : $this->raw->query($sql);
        if ($values) $statement->execute($values);
        $found = $statement->fetchAll();
        $statement->closeCursor();
        return $found;
    }

    public function run(string $sql, array $values = []): int
    {
        if (!$values) return (int) $this->raw->exec($sql);
        $statement = $this->raw->prepare($sql);
        $statement->execute($values);
        return $statement->rowCount();
    }

    public function all(string $sql): array
    {
        $found = [];
        $statement = $this->raw->query($sql);
        do {
            $found[] = $statement->columnCount() ? $statement->fetchAll() : $statement->rowCount();
        } while ($statement->nextRowset());
        return $found;
    }

    public function id(): int { return (int) $this->rows('SELECT CONNECTION_ID()')[0][0]; }
    public function insertId(): int { return (int) $this->raw->lastInsertId(); }
    public function begin(): void { $this->raw->beginTransaction(); }
    public function commit(): void { $this->raw->commit(); }
    public function rollback(): void { $this->raw->rollBack(); }
    public function close(): void { $this->raw = null; }

    public function stream(string $sql): iterable
    {
        $this->raw->setAttribute(PDO::MYSQL_ATTR_USE_BUFFERED_QUERY, false);
        $statement = $this->raw->query($sql);
        while ($row = $statement->fetch()) yield $row;
        $statement->closeCursor();
        $this->raw->setAttribute(PDO::MYSQL_ATTR_USE_BUFFERED_QUERY, true);
    }
}

function open(array $options = []): Driver
{
    global $name;
    $driver = $name === 'mysqli' ? new Mysqli_() : new Pdo_();
    $driver->connect($options);
    return $driver;
}

function fault(Throwable $error): array
{
    if ($error instanceof Skip) throw $error;
    if ($error instanceof PDOException) return [$error->errorInfo[0] ?? null, $error->errorInfo[1] ?? $error->getCode(), $error->errorInfo[2] ?? $error->getMessage()];
    if ($error instanceof mysqli_sql_exception) return [$error->getSqlState(), $error->getCode(), $error->getMessage()];
    return [get_class($error), $error->getMessage()];
}

function refused(callable $work): array
{
    try {
        $value = $work();
    } catch (Throwable $error) {
        return fault($error);
    }
    throw new Exception('there was no error but ' . text($value));
}

function outcome(callable $work): array
{
    try {
        return ['value', $work()];
    } catch (Throwable $error) {
        return fault($error);
    }
}

function table(Driver $c, string $table, string $columns): void
{
    $c->run("DROP TABLE IF EXISTS $table");
    $c->run("CREATE TABLE $table ($columns) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4");
}

function numbers(Driver $c, int $count, string $table = 't_numbers'): void
{
    table($c, $table, 'id INT PRIMARY KEY, v VARCHAR(100)');
    $c->run("INSERT INTO $table VALUES (1, REPEAT('x', 80))");
    for ($have = 1; $have < $count; $have *= 2) $c->run("INSERT INTO $table SELECT id + $have, v FROM $table WHERE id + $have <= $count");
}

const COLUMNS = 'id, ti, si, mi, i, bi, bu, f, d, de, da, tm, dt, ts, y, c, v, tx, vb, bl, j, e, s, bt, z';
const TYPES = "id INT PRIMARY KEY, ti TINYINT, si SMALLINT UNSIGNED, mi MEDIUMINT, i INT UNSIGNED, bi BIGINT, bu BIGINT UNSIGNED, f FLOAT, d DOUBLE, de DECIMAL(40,10), da DATE, tm TIME(6), dt DATETIME(6),
    ts TIMESTAMP(3) NULL, y YEAR, c CHAR(10), v VARCHAR(200), tx TEXT, vb VARBINARY(256), bl LONGBLOB, j JSON, e ENUM('one','two'), s SET('x','y','z'), bt BIT(12), z INT(6) ZEROFILL";

function types(array $options): array
{
    $c = open($options);
    table($c, 't_types', TYPES);
    $bytes = implode('', array_map('chr', range(0, 255)));
    $values = [
        [1, 127, 65535, 8388607, 4294967295, PHP_INT_MAX, '18446744073709551615', 1.5, 0.1, '123456789012345678901234567890.0123456789', '9999-12-31', '838:59:58.999999', '2038-01-19 03:14:07.999999',
            '2024-02-29 23:59:59.123', 2155, 'char', "Zürich 🦀 'quoted' \\ back", str_repeat('text ', 50), $bytes, str_repeat($bytes, 40), '{"a": [1, null, "ü🦀"]}', 'two', 'x,z', null, 42],
        array_merge([2], array_fill(0, 24, null)),
        [3, -128, 0, -8388608, 0, PHP_INT_MIN, '0', -1.25, -0.1, '-0.0000000001', '1000-01-01', '-01:00:01.000000', '1000-01-01 00:00:00.000000', '1971-01-01 00:00:00.000', 1901, '', '', '', '', '', '[]', 'one', '', null, 0],
    ];
    foreach ($values as $row) $c->run('INSERT INTO t_types (' . COLUMNS . ') VALUES (' . substr(str_repeat('?, ', 25), 0, -2) . ')', $row);
    $c->run("UPDATE t_types SET bt = b'101010101010' WHERE id = 1");
    $text = $c->rows('SELECT ' . COLUMNS . ' FROM t_types ORDER BY id');
    $prepared = $c->rows('SELECT ' . COLUMNS . ' FROM t_types WHERE id >= ? ORDER BY id', [0]);
    foreach ([$text, $prepared] as $found) {
        equal(count($found), 3);
        foreach ($found as $index => $row) {
            foreach ([0, 1, 2, 3, 4, 5, 6, 9, 10, 11, 12, 15, 16, 17, 18, 19] as $column) {
                equal($row[$column] === null ? null : (string) $row[$column], $values[$index][$column] === null ? null : (string) $values[$index][$column], "column $column");
            }
        }
    }
    return [$text, $prepared, $c->rows("SELECT ? + 1, CONCAT(?, 'x'), ? IS NULL", [41, 'y', null])];
}

function large(int $size): array
{
    $c = open();
    $value = str_repeat('0123456789abcdef', intdiv($size, 16));
    equal((int) $c->rows('SELECT LENGTH(?)', [$value])[0][0], $size, 'length');
    $back = $c->rows("SELECT REPEAT('0123456789abcdef', $size / 16)")[0][0];
    if ($back !== $value) throw new Exception('another value came');
    return [strlen($back), $c->rows("SELECT LENGTH('$value')")];
}

/** A statement in another process, so that this one can kill it. */
function killed(string $sql): array
{
    global $argv;
    $process = proc_open([PHP_BINARY, __FILE__, $argv[1], 'child', $sql], [1 => ['pipe', 'w']], $pipes);
    $id = (int) fgets($pipes[1]);
    usleep(700000);
    open()->run("KILL QUERY $id");
    $out = trim(stream_get_contents($pipes[1]));
    proc_close($process);
    return json_decode($out, true) ?? [$out];
}

if (($argv[2] ?? '') === 'child') {
    $c = open();
    echo $c->id(), "\n";
    $found = outcome(fn() => str_starts_with($argv[3], 'SELECT') ? $c->rows($argv[3]) : $c->run($argv[3]));
    echo text([$found, outcome(fn() => $c->rows('SELECT 1'))]), "\n";
    exit(0);
}

$mariadb = env('FAMILY') === 'mariadb';
$isolation = $mariadb ? '@@tx_isolation' : '@@transaction_isolation';
$cases = [
    'connect' => function () use ($isolation) {
        $c = open();
        equal((int) $c->rows('SELECT CONNECTION_ID()')[0][0], $c->id());
        $info = $c instanceof Mysqli_ ? [$c->raw->server_info, $c->raw->character_set_name()] : [$c->raw->getAttribute(PDO::ATTR_SERVER_VERSION)];
        return [$c->rows("SELECT CURRENT_USER(), DATABASE(), @@character_set_client, @@character_set_results, @@collation_connection, @@autocommit, @@sql_mode, @@version, $isolation"), $info,
            array_slice(refused(fn() => open(['password' => 'wrong'])), 1, 1), array_slice(refused(fn() => open(['database' => 'no_such_schema'])), 1, 2)];
    },
    'types_text' => fn() => types(['emulate' => true]),
    'types_prepared' => fn() => types(['emulate' => false, 'native' => true]),
    'metadata' => function () {
        $c = open();
        table($c, 't_types', TYPES);
        $seen = [];
        foreach (['SELECT ' . COLUMNS . ' FROM t_types', 'SELECT t.id AS number, COUNT(*) c FROM t_types AS t GROUP BY t.id', "SELECT 1 AS one, 'ü' AS `ä b`"] as $sql) {
            if ($c instanceof Mysqli_) {
                $seen[] = $c->raw->query($sql)->fetch_fields();
            } else {
                $statement = $c->raw->query($sql);
                for ($column = 0; $column < $statement->columnCount(); $column++) $seen[] = $statement->getColumnMeta($column);
            }
        }
        return json_decode(json_encode($seen), true);
    },
    'prepared_many' => function () {
        $c = open();
        $statements = [];
        $execute = function ($statement, $value) use ($c) {
            if ($c instanceof Mysqli_) {
                $statement->execute([$value]);
                return $statement->get_result()->fetch_all()[0];
            }
            $statement->execute([$value]);
            return $statement->fetchAll()[0];
        };
        for ($number = 0; $number < 300; $number++) $statements[] = $c->raw->prepare("SELECT ? AS a, $number AS n");
        for ($number = 299; $number >= 0; $number -= 7) {
            // MySQL keeps the type of the first execution.
            foreach (env('FAMILY') === 'mariadb' ? [$number, null, 'text', 5.5] : [$number, null] as $value) {
                $row = $execute($statements[$number], $value);
                equal([$row[0] === null ? null : (string) $row[0], (int) $row[1]], [$value === null ? null : (string) $value, $number], 'echo');
            }
        }
        table($c, 't_many', 'id INT PRIMARY KEY, v VARCHAR(40)');
        $c->run('INSERT INTO t_many VALUES (?, ?)', [7, 'v7']);
        $seen = [];
        foreach (['SET @a = 1', 'ALTER TABLE t_many ADD COLUMN w INT DEFAULT 7', 'ALTER TABLE t_many DROP COLUMN v'] as $change) {
            $c->run($change);
            $seen[] = $c->rows('SELECT * FROM t_many WHERE id = ?', [7]);
        }
        return $seen;
    },
    'sql_prepare' => function () {
        $c = open(['emulate' => true]);
        $c->run("PREPARE twice FROM 'SELECT ? * 2'");
        $c->run('SET @n = 21');
        $seen = [$c->rows('EXECUTE twice USING @n')];
        $c->run("SET @text = CONCAT('SELECT ', 1 + 1, ' AS two')");
        $c->run('PREPARE other FROM @text');
        $seen[] = $c->rows('EXECUTE other');
        $c->run('DEALLOCATE PREPARE twice');
        $seen[] = refused(fn() => $c->rows('EXECUTE twice USING @n'));
        return $seen;
    },
    'cursor_fetch' => function () {
        $c = open();
        if (!$c instanceof Mysqli_) throw new Skip('the driver has no server-side cursors');
        if (PHP_VERSION_ID < 80000) throw new Skip('too old');
        numbers($c, 1000);
        $statement = $c->raw->prepare('SELECT id, v FROM t_numbers WHERE id > ? ORDER BY id');
        $statement->attr_set(MYSQLI_STMT_ATTR_CURSOR_TYPE, MYSQLI_CURSOR_TYPE_READ_ONLY);
        $zero = 0;
        $statement->bind_param('i', $zero);
        $statement->execute();
        $statement->bind_result($id, $v);
        [$total, $count] = [0, 0];
        while ($statement->fetch()) {
            $total += $id;
            if (++$count === 50) open()->run("UPDATE t_numbers SET v = 'changed'");
        }
        $statement->reset();
        $statement->execute();
        $statement->fetch();
        $statement->close();
        equal([$count, $total], [1000, 500500]);
        equal((int) $c->rows('SELECT COUNT(*) FROM t_numbers')[0][0], 1000);
        return $total;
    },
    'unbuffered' => function () {
        $c = open();
        numbers($c, 20000);
        $total = 0;
        foreach ($c->stream('SELECT id, v FROM t_numbers ORDER BY id') as $row) $total += $row[0];
        equal($total, 20000 * 20001 / 2);
        foreach (open()->stream('SELECT id, v FROM t_numbers ORDER BY id') as $row) break;
        return [$total, $c->rows('SELECT MAX(id) FROM t_numbers')];
    },
    'batch' => function () {
        $c = open();
        table($c, 't_batch', 'id INT AUTO_INCREMENT PRIMARY KEY, u INT UNIQUE, v VARCHAR(100), b BLOB');
        $c->begin();
        $statement = $c->raw->prepare('INSERT INTO t_batch (u, v, b) VALUES (?, ?, ?)');
        for ($n = 0; $n < 1000; $n++) $statement->execute([$n, $n % 10 ? "v$n" : null, str_repeat("\xff\0", $n % 100)]);
        $failed = outcome(fn() => $statement->execute([5, 'again', '']));
        $c->commit();
        return [$failed, $c->rows('SELECT COUNT(*), SUM(v IS NULL), SUM(LENGTH(b)), MIN(id), MAX(u) FROM t_batch')];
    },
    'local_infile' => function () {
        $file = env('SCRATCH') . '/load-php.csv';
        file_put_contents($file, implode('', array_map(fn($n) => "$n,value ü $n\n", range(0, 19999))));
        $c = open(['infile' => true]);
        table($c, 't_load', 'id INT PRIMARY KEY, v VARCHAR(100)');
        $load = fn($file) => "LOAD DATA LOCAL INFILE '$file' INTO TABLE t_load FIELDS TERMINATED BY ','";
        $count = $c->run($load($file));
        $seen = $c->rows('SELECT COUNT(*), SUM(id), MAX(v) FROM t_load');
        equal((int) $seen[0][0], 20000);
        return [$count, $seen, outcome(fn() => @$c->run($load('/no/such/file'))), outcome(fn() => $c->rows('SELECT COUNT(*) FROM t_load'))];
    },
    'kill_query' => function () {
        $c = open();
        numbers($c, 3000, 't_kill');
        $seen = [killed('SELECT SLEEP(20)'), killed('SELECT COUNT(*) FROM t_kill a, t_kill b, t_kill c WHERE a.v <> CONCAT(b.v, c.id) FOR UPDATE'), killed("UPDATE t_kill SET v = IF(SLEEP(20), 'a', 'b') WHERE id = 1")];
        equal([$seen[1][0][1], $seen[2][0][1]], [1317, 1317]);
        $seen[] = refused(fn() => $c->run('KILL QUERY 999999999'));
        return $seen;
    },
    'kill_connection' => function () {
        [$c, $killer] = [open(), open()];
        $id = $c->id();
        $killer->run("KILL $id");
        usleep(300000);
        $gone = @refused(fn() => $c->rows('SELECT 1'));
        $unknown = refused(fn() => $killer->run("KILL $id"));
        return [count($gone), $unknown[1], str_replace((string) $id, 'ID', $unknown[2])];
    },
    'timeout' => function () {
        global $name;
        if ($name === 'pdo') throw new Skip('the driver has no limit for statements');
        $c = open(['timeout' => 1]);
        $started = microtime(true);
        $ended = @refused(fn() => $c->rows('SELECT SLEEP(15)'));
        if (microtime(true) - $started > 8) throw new Exception('the limit was not kept');
        return [$ended[1], open()->rows('SELECT 1')];
    },
    'tls' => function () {
        $c = open(['tls' => true]);
        return [strlen($c->rows("SELECT REPEAT('tls', 100000)")[0][0]), $c->rows("SHOW STATUS LIKE 'Ssl_version'")[0][1] !== ''];
    },
    'compression' => function () {
        $c = open(['compress' => true]);
        $value = str_repeat('compressible ', 80000);
        if ($c->rows('SELECT ?', [$value])[0][0] !== $value) throw new Exception('another value');
        $noise = random_bytes(1 << 19);
        equal($c->rows('SELECT SHA2(?, 256)', [$noise])[0][0], hash('sha256', $noise));
        numbers($c, 3000);
        return $c->rows('SELECT COUNT(*), MAX(id) FROM t_numbers');
    },
    'change_user' => function () {
        $c = open();
        if (!$c instanceof Mysqli_) throw new Skip('the driver has no change of user');
        $c->run('SET @a = 5, SESSION group_concat_max_len = 77');
        $c->run('CREATE TEMPORARY TABLE t_gone (id INT)');
        $c->raw->change_user(env('OTHER_USER'), env('OTHER_PASSWORD'), env('OTHER_DATABASE'));
        $seen = $c->rows('SELECT CURRENT_USER(), DATABASE(), @a, @@group_concat_max_len, @@character_set_client');
        $gone = refused(fn() => $c->rows('SELECT * FROM ' . env('DATABASE') . '.t_gone'));
        $c->raw->change_user(env('USER'), env('PASSWORD'), env('DATABASE'));
        return [$seen, $gone, $c->rows('SELECT CURRENT_USER(), ?', [1])];
    },
    'reset' => function () {
        // mysqli's persistent connections are cleaned by a change of user when they are taken again.
        global $name;
        if ($name === 'pdo') throw new Skip('the driver has no reset');
        $c = open(['persistent' => true]);
        $c->run('SET @a = 5');
        $c->run('CREATE TEMPORARY TABLE t_gone (id INT)');
        $id = $c->id();
        $c->close();
        $c = open(['persistent' => true]);
        return [$c->id() === $id, $c->rows('SELECT @a, DATABASE(), CURRENT_USER()'), refused(fn() => $c->rows('SELECT * FROM t_gone'))];
    },
    'multi_statements' => function () {
        $c = open(['emulate' => true]);
        table($c, 't_multi', 'id INT PRIMARY KEY, v INT');
        $seen = $c->all('INSERT INTO t_multi VALUES (1, 1), (2, 2); SELECT * FROM t_multi ORDER BY id; UPDATE t_multi SET v = 3; SELECT SUM(v) FROM t_multi; SET @x = 4; SELECT @x');
        $failed = outcome(fn() => $c->all('SELECT 1; SELECT * FROM no_such_table; SELECT 3'));
        return [$seen, $failed, outcome(fn() => $c->rows('SELECT @x, COUNT(*) FROM t_multi'))];
    },
    'procedures' => function () {
        $c = open(['emulate' => true]);
        table($c, 't_calls', 'n INT');
        $c->run('DROP PROCEDURE IF EXISTS p_results');
        $c->run("CREATE PROCEDURE p_results(IN n INT) BEGIN SELECT n AS first; SELECT n + 1 AS second, 'text' AS t; INSERT INTO t_calls VALUES (n); SELECT COUNT(*) FROM t_calls; END");
        $seen = [$c->all('CALL p_results(5)')];
        $p = open();
        $statement = $p->raw->prepare('CALL p_results(?)');
        for ($round = 0; $round < 3; $round++) {
            $statement->execute([$round]);
            if ($p instanceof Mysqli_) {
                do {
                    if ($result = $statement->get_result()) $seen[] = $result->fetch_all();
                } while ($statement->more_results() && $statement->next_result());
            } else {
                do {
                    $seen[] = $statement->columnCount() ? $statement->fetchAll() : 'end';
                } while ($statement->nextRowset());
                $statement->closeCursor();
            }
        }
        $c->run('DROP PROCEDURE IF EXISTS p_fails');
        $c->run("CREATE PROCEDURE p_fails() BEGIN SELECT 1; SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'mine', MYSQL_ERRNO = 5001; END");
        return [$seen, outcome(fn() => $c->all('CALL p_fails()')), open()->rows('SELECT COUNT(*) FROM t_calls FOR UPDATE')];
    },
    'out_params' => function () {
        $c = open(['emulate' => true]);
        $c->run('DROP PROCEDURE IF EXISTS p_out');
        $c->run("CREATE PROCEDURE p_out(IN a INT, OUT b INT, INOUT c VARCHAR(20)) BEGIN SET b = a * 2; SET c = CONCAT(c, '!'); END");
        $c->run("SET @c = 'x'");
        $c->run('CALL p_out(4, @b, @c)');
        equal(array_map('strval', $c->rows('SELECT @b, @c')[0]), ['8', 'x!']);
        return $c->rows('SELECT @b, @c');
    },
    'large_17mb' => fn() => large(17 << 20),
    'large_40mb' => fn() => large(40 << 20),
    'charset' => function () {
        $c = open();
        table($c, 't_chars', 'id INT PRIMARY KEY, u VARCHAR(50), l VARCHAR(50) CHARACTER SET latin1, b VARBINARY(50)');
        $c->run('INSERT INTO t_chars VALUES (1, ?, ?, ?)', ['ü🦀漢字', 'äöüÿ', "\xff\0\x80"]);
        $seen = $c->rows('SELECT u, l, b, HEX(u), HEX(l), HEX(b) FROM t_chars WHERE u = ?', ['ü🦀漢字']);
        equal($seen[0][3], 'C3BCF09FA680E6BCA2E5AD97');
        $latin = open(['charset' => 'latin1']);
        $latin->run('INSERT INTO t_chars VALUES (2, ?, ?, ?)', ["\xe4\xf6\xfc", "\xc4\xd6\xdc", "\xe4"]);
        return [$seen, $latin->rows('SELECT u, l, HEX(u), HEX(l), @@character_set_client, @@character_set_results, @@collation_connection FROM t_chars WHERE id = 2')];
    },
    'transactions' => function () {
        [$c, $other] = [open(), open()];
        table($c, 't_trx', 'id INT PRIMARY KEY, v INT');
        $count = fn($which) => (int) $which->rows('SELECT COUNT(*) FROM t_trx')[0][0];
        $c->begin();
        $c->run('INSERT INTO t_trx VALUES (?, 1)', [1]);
        $seen = [$count($c), $count($other)];
        $c->rollback();
        $seen[] = $count($c);
        $c->begin();
        $c->run('INSERT INTO t_trx VALUES (2, 2)');
        $c->run('SAVEPOINT a');
        $c->run('INSERT INTO t_trx VALUES (?, 3)', [3]);
        $c->run('ROLLBACK TO SAVEPOINT a');
        $c->run('INSERT INTO t_trx VALUES (4, 4)');
        $c->commit();
        $seen[] = array_column($c->rows('SELECT id FROM t_trx ORDER BY id'), 0);
        equal(array_map('intval', $seen[3]), [2, 4]);
        equal(array_slice($seen, 0, 3), [1, 0, 0]);
        $seen[] = refused(fn() => $c->run('INSERT INTO t_trx VALUES (?, 2)', [2]));
        return $seen;
    },
    'isolation' => function () use ($isolation) {
        $c = open();
        table($c, 't_iso', 'id INT PRIMARY KEY, v INT');
        $c->run('INSERT INTO t_iso VALUES (1, 1)');
        $seen = [];
        foreach (['READ UNCOMMITTED', 'READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE'] as $level) {
            $c->run("SET SESSION TRANSACTION ISOLATION LEVEL $level");
            $seen[] = $c->rows("SELECT $isolation")[0][0];
        }
        $c instanceof Mysqli_ ? $c->raw->begin_transaction(MYSQLI_TRANS_START_READ_ONLY) : $c->run('START TRANSACTION READ ONLY');
        $seen[] = refused(fn() => $c->run('UPDATE t_iso SET v = 3'));
        $c->run('ROLLBACK');
        $seen[] = $c->rows('SELECT v FROM t_iso');
        return $seen;
    },
    'autocommit' => function () {
        [$c, $other] = [open(), open()];
        table($c, 't_auto', 'id INT PRIMARY KEY');
        $c instanceof Mysqli_ ? $c->raw->autocommit(false) : $c->raw->setAttribute(PDO::ATTR_AUTOCOMMIT, false);
        $count = fn($more = '') => (int) $c->rows("SELECT COUNT(*) FROM t_auto $more")[0][0];
        $seen = [$count()];
        $other->run('INSERT INTO t_auto VALUES (1)');
        $seen[] = $count();
        $c->run('COMMIT');
        $seen[] = $count('FOR UPDATE');
        $c->run('INSERT INTO t_auto VALUES (2)');
        $c->run('ROLLBACK');
        $seen[] = $count();
        equal($seen, [0, 0, 1, 1]);
        return $seen;
    },
    'pool' => function () {
        $setup = open();
        table($setup, 't_pool', 'id INT PRIMARY KEY, v VARCHAR(10)');
        for ($number = 0; $number < 40; $number++) {
            $c = open(['persistent' => true]);
            $c->run('INSERT INTO t_pool VALUES (?, ?)', [$number, 'v']);
            equal((int) $c->rows('SELECT COUNT(*) FROM t_pool')[0][0], $number + 1);
            $c->close();
        }
        return 40;
    },
    'session_state' => function () {
        $c = open();
        $c->run("SET sql_mode = CONCAT(@@sql_mode, ',NO_BACKSLASH_ESCAPES')");
        $c->run("SET sql_mode = REPLACE(@@sql_mode, 'NO_BACKSLASH_ESCAPES', '')");
        $c->run("SET SESSION group_concat_max_len = 2048, time_zone = '+02:00', @a = 1, @b = 'text', @c = NULL, @d = 1.5");
        $seen = [$c->rows('SELECT @@group_concat_max_len, @@time_zone, @a, @b, @c, @d, @@sql_mode')];
        for ($number = 0; $number < 20; $number++) $c->rows('SELECT ?', [$number]);
        $seen[] = $c->rows('SELECT @@group_concat_max_len, @@time_zone, @a, @b, @c, @d, ?', [1]);
        $c->run('SELECT 7, 8 INTO @x, @y');
        $seen[] = $c->rows('SELECT @x + @y');
        $c instanceof Mysqli_ ? $c->raw->select_db(env('OTHER_DATABASE')) : $c->run('USE ' . env('OTHER_DATABASE'));
        $seen[] = $c->rows('SELECT DATABASE()');
        return $seen;
    },
    'temp_tables' => function () {
        $c = open();
        $c->run('CREATE TEMPORARY TABLE t_temp (id INT PRIMARY KEY, v VARCHAR(20))');
        $c->run('INSERT INTO t_temp VALUES (?, ?), (2, ?)', [1, 'a', 'b']);
        $seen = [$c->rows('SELECT v FROM t_temp WHERE id = ?', [2]), refused(fn() => open()->rows('SELECT * FROM t_temp'))];
        $c->run('DROP TEMPORARY TABLE t_temp');
        return [$seen, refused(fn() => $c->rows('SELECT * FROM t_temp'))];
    },
    'own_writes' => function () {
        $c = open();
        table($c, 't_own', 'id INT PRIMARY KEY, v INT');
        for ($number = 0; $number < 200; $number++) {
            $c->run('INSERT INTO t_own VALUES (?, 0)', [$number]);
            equal((int) $c->rows('SELECT COUNT(*) FROM t_own')[0][0], $number + 1, 'rows after an insert');
            $c->run("UPDATE t_own SET v = v + 1 WHERE id = $number");
            equal((int) $c->rows('SELECT v FROM t_own WHERE id = ?', [$number])[0][0], 1, 'a value after its update');
        }
        return 200;
    },
    'insert_id' => function () {
        $c = open();
        table($c, 't_ids', 'id INT AUTO_INCREMENT PRIMARY KEY, u INT UNIQUE, v INT');
        $seen = [$c->run('INSERT INTO t_ids (u, v) VALUES (1, 1), (2, 2), (3, 3)'), $c->insertId(), $c->rows('SELECT LAST_INSERT_ID(), 1')];
        $seen[] = $c->run('INSERT INTO t_ids (u, v) VALUES (2, 9) ON DUPLICATE KEY UPDATE v = 9');
        $seen[] = $c->rows('SELECT ROW_COUNT()');
        $seen[] = $c->run('UPDATE t_ids SET v = ? WHERE u = 2', [9]);
        $seen[] = open(['found' => true])->run('UPDATE t_ids SET v = 9 WHERE u = 2');
        $c->rows('SELECT SQL_CALC_FOUND_ROWS id FROM t_ids LIMIT 1');
        $seen[] = $c->rows('SELECT FOUND_ROWS()');
        if ($c instanceof Mysqli_) {
            $c->run('UPDATE t_ids SET v = v + 1');
            $seen[] = $c->raw->info;
        }
        return $seen;
    },
    'locks' => function () {
        [$c, $other] = [open(), open()];
        $lock = 'lock_' . env('DATABASE');
        table($c, 't_lock', 'id INT PRIMARY KEY');
        $seen = [$c->rows('SELECT GET_LOCK(?, 5)', [$lock]), $other->rows('SELECT GET_LOCK(?, 0)', [$lock]), $c->rows('SELECT RELEASE_LOCK(?)', [$lock]), $other->rows('SELECT GET_LOCK(?, 5)', [$lock])];
        $other->close();
        $seen[] = $c->rows('SELECT GET_LOCK(?, 5)', [$lock]);
        $c->run('LOCK TABLES t_lock WRITE');
        $seen[] = refused(fn() => $c->rows('SELECT * FROM t_types'));
        $c->run('INSERT INTO t_lock VALUES (1)');
        $seen[] = $c->rows('SELECT COUNT(*) FROM t_lock');
        $c->run('UNLOCK TABLES');
        return $seen;
    },
    'errors' => function () {
        $c = open();
        table($c, 't_err', 'id INT PRIMARY KEY, v VARCHAR(3) NOT NULL, n TINYINT');
        $c->run("INSERT INTO t_err VALUES (1, 'a', 1)");
        $seen = [];
        foreach (["INSERT INTO t_err VALUES (1, 'b', 1)", 'SELEC 1', 'SELECT * FROM no_such_table', 'SELECT no_such_column FROM t_err', 'INSERT INTO t_err VALUES (2, NULL, 1)', "INSERT INTO t_err VALUES (2, 'too long', 1)",
            "INSERT INTO t_err VALUES (2, 'a', 1000)", 'SELECT no_such_function(1)', 'CALL no_such_procedure()', 'USE no_such_schema', 'SET no_such_variable = 1', 'CREATE TABLE t_err (id INT)', 'DROP TABLE no_such_table'] as $sql) {
            $seen[] = refused(fn() => $c->run($sql));
        }
        foreach (["INSERT INTO t_err VALUES (?, 'b', 1)", 'SELECT * FROM no_such_table WHERE id = ?', 'SELEC ?'] as $sql) $seen[] = refused(fn() => $c->run($sql, [1]));
        return $seen;
    },
    'warnings' => function () {
        $c = open();
        $c->run("SET sql_mode = ''");
        table($c, 't_warn', 'id INT PRIMARY KEY, v VARCHAR(3), n TINYINT');
        $c->run("INSERT INTO t_warn VALUES (1, 'too long', 1000)");
        $seen = [$c instanceof Mysqli_ ? $c->raw->warning_count : null, $c->rows('SHOW WARNINGS')];
        $c->run('INSERT INTO t_warn VALUES (2, ?, ?)', ['too long', 1000]);
        $seen[] = $c->rows('SHOW WARNINGS');
        return $seen;
    },
    'habits' => function () {
        // Applications send SET SESSION sql_mode and SET NAMES after each of many short connections.
        $seen = [];
        for ($number = 0; $number < 50; $number++) {
            $c = open();
            $c->run("SET SESSION sql_mode = 'NO_ENGINE_SUBSTITUTION'");
            $c->run("SET NAMES utf8mb4 COLLATE utf8mb4_unicode_ci");
            $seen = $c->rows('SELECT @@sql_mode, @@collation_connection, ?', [1]);
            $c->close();
        }
        return $seen;
    },
];

error_reporting(E_ALL);
ini_set('memory_limit', '1G');
set_error_handler(fn() => true, E_WARNING | E_NOTICE | E_DEPRECATED);
preg_match_all('/^name = "(.*)"$/m', file_get_contents(env('CASES')), $found);
$only = array_filter(explode(',', env('ONLY')));
foreach ($found[1] as $case) {
    if ($only && !in_array($case, $only)) continue;
    $started = microtime(true);
    $line = ['case' => $case];
    try {
        if (!isset($cases[$case])) throw new Exception("the driver's program has no such case");
        $seen = text($cases[$case]());
        $line += ['status' => 'ok', 'digest' => substr(hash('sha256', $seen), 0, 16), 'seen' => substr($seen, 0, 4000)];
    } catch (Skip $skip) {
        $line += ['status' => 'skip', 'reason' => $skip->getMessage()];
    } catch (Throwable $error) {
        $where = implode(' ', array_slice(array_filter(array_map(fn($frame) => $frame['line'] ?? 0, $error->getTrace())), 0, 4));
        $line += ['status' => 'fail', 'error' => substr(get_class($error) . ': ' . $error->getMessage() . " [{$error->getLine()} $where]", 0, 1500)];
    }
    $line['ms'] = (int) ((microtime(true) - $started) * 1000);
    echo json_encode($line, JSON_INVALID_UTF8_SUBSTITUTE), "\n";
}
