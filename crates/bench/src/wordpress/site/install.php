<?php
// Makes the blog's tables and settings, and prints the hash that all of its users' passwords have.
define('WP_INSTALLING', true);
require __DIR__ . '/wp-load.php';
require ABSPATH . 'wp-admin/includes/upgrade.php';
wp_install('Blog', 'admin', 'admin@blog.test', true, '', getenv('BENCH_BLOG_PASSWORD'));
// Comments are seen as soon as they are written.
update_option('comment_previously_approved', 0);
update_option('comment_moderation', 0);
// Nobody is told of new stories.
update_option('ping_sites', '');
update_option('default_pingback_flag', 0);
switch_theme(getenv('BENCH_THEME'));
echo "\nhash=", wp_hash_password(getenv('BENCH_BLOG_PASSWORD')), "\n";
