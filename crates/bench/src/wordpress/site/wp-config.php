<?php
// The configuration of the blog that is measured. The database's address comes from the environment: each contender has PHP
// processes of its own, which all serve the same blog.
define('DB_NAME', getenv('BENCH_NAME'));
define('DB_USER', getenv('BENCH_USER'));
define('DB_PASSWORD', getenv('BENCH_PASSWORD'));
define('DB_HOST', getenv('BENCH_DATABASE'));
define('DB_CHARSET', 'utf8mb4');
define('DB_COLLATE', '');
foreach (['AUTH', 'SECURE_AUTH', 'LOGGED_IN', 'NONCE'] as $name) {
    define($name . '_KEY', 'bench ' . $name);
    define($name . '_SALT', 'salt of ' . $name);
}
// Pages are compared: whoever serves them, their links are the same.
define('WP_HOME', 'http://blog.test');
define('WP_SITEURL', 'http://blog.test');
// Nothing runs beside the pages that are asked for, and nothing leaves the machine.
define('DISABLE_WP_CRON', true);
define('AUTOMATIC_UPDATER_DISABLED', true);
define('WP_HTTP_BLOCK_EXTERNAL', true);
$table_prefix = 'wp_';
if (!defined('ABSPATH')) {
    define('ABSPATH', __DIR__ . '/');
}
require_once ABSPATH . 'wp-settings.php';
