<?php
// A plugin that is always on (wp-content/mu-plugins).

// No letter leaves the machine.
function wp_mail() {
    return true;
}

// Clients comment as fast as they can, all from one address.
add_filter('wp_is_comment_flood', '__return_false', 99);

// The page's time in the database, after the page. Only pages of HTML end so: nothing else is measured.
add_action('wp_footer', function () {
    register_shutdown_function(function () {
        global $wpdb;
        printf("\n<!-- database: %d statements, %d us -->\n", $wpdb->num_queries, $wpdb->bench_ns / 1000);
    });
});
