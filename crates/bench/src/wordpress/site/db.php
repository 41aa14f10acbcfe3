<?php
// WordPress takes its database class from here (wp-content/db.php). This one measures what a page waits for the database.
class Bench_Database extends wpdb {
    /** Nanoseconds of connecting and of all statements. */
    public $bench_ns = 0;

    public function db_connect($allow_bail = true) {
        $begin = hrtime(true);
        $done = parent::db_connect($allow_bail);
        $this->bench_ns += hrtime(true) - $begin;
        return $done;
    }

    public function query($query) {
        $begin = hrtime(true);
        $done = parent::query($query);
        $this->bench_ns += hrtime(true) - $begin;
        return $done;
    }
}
$wpdb = new Bench_Database(DB_USER, DB_PASSWORD, DB_NAME, DB_HOST);
