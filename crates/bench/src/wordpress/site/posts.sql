-- The blog's content, the same for the same seed. Names in braces are replaced.
SET SESSION sql_mode = '', foreign_key_checks = 0, unique_checks = 0;
DELETE FROM wp_posts; DELETE FROM wp_comments; DELETE FROM wp_term_relationships; DELETE FROM wp_postmeta;

INSERT INTO wp_users (ID, user_login, user_pass, user_nicename, user_email, user_registered, display_name)
SELECT 1 + seq, CONCAT('writer', seq), '{HASH}', CONCAT('writer', seq), CONCAT('writer', seq, '@blog.test'), '2020-01-01', CONCAT('Writer ', seq)
FROM seq_1_to_{USERS};
INSERT INTO wp_usermeta (user_id, meta_key, meta_value) SELECT 1 + seq, 'wp_capabilities', 'a:1:{s:6:"author";b:1;}' FROM seq_1_to_{USERS};
INSERT INTO wp_usermeta (user_id, meta_key, meta_value) SELECT 1 + seq, 'wp_user_level', '2' FROM seq_1_to_{USERS};

-- The first category is WordPress's own.
INSERT INTO wp_terms (term_id, name, slug) SELECT 100 + seq, CONCAT('Category ', seq), CONCAT('category-', seq) FROM seq_1_to_{CATEGORIES};
INSERT INTO wp_term_taxonomy (term_taxonomy_id, term_id, taxonomy, description, count)
SELECT 100 + seq, 100 + seq, 'category', '', 0 FROM seq_1_to_{CATEGORIES};

INSERT INTO wp_posts (ID, post_author, post_date, post_date_gmt, post_content, post_title, post_excerpt, post_status, comment_status,
    ping_status, post_name, to_ping, pinged, post_modified, post_modified_gmt, post_content_filtered, guid, post_type, comment_count)
SELECT id, 2 + CRC32(CONCAT('author', {SEED}, id)) % {USERS}, day, day,
    CONCAT('The ', ELT(1 + h % 8, 'quiet', 'early', 'long', 'green', 'broken', 'open', 'last', 'silver'), ' story of number ', id, '. ',
        REPEAT(CONCAT('A ', ELT(1 + (h >> 3) % 8, 'river', 'house', 'letter', 'garden', 'winter', 'table', 'mountain', 'window'), ' and a ',
            ELT(1 + (h >> 6) % 8, 'road', 'bird', 'clock', 'stone', 'song', 'harbour', 'lamp', 'field'), ' were all that was left in the town, ',
            ELT(1 + (h >> 9) % 8, 'and nobody knew why', 'as it had always been', 'for the time being', 'or so they said', 'until the evening',
            'in that year', 'by the sea', 'beyond the hill'), '. '), 20)),
    CONCAT('Story ', id, ' of the ', ELT(1 + (h >> 3) % 8, 'river', 'house', 'letter', 'garden', 'winter', 'table', 'mountain', 'window')),
    '', 'publish', 'open', 'closed', CONCAT('story-', id), '', '', day, day, '', CONCAT('http://blog.test/?p=', id), 'post', {COMMENTS}
FROM (SELECT 1000 + seq AS id, CRC32(CONCAT('post', {SEED}, seq)) AS h, '2014-01-01' + INTERVAL seq * 40 MINUTE AS day FROM seq_1_to_{POSTS}) AS source;

INSERT INTO wp_term_relationships (object_id, term_taxonomy_id)
SELECT 1000 + seq, 101 + CRC32(CONCAT('category', {SEED}, seq)) % {CATEGORIES} FROM seq_1_to_{POSTS};
UPDATE wp_term_taxonomy SET count = (SELECT COUNT(*) FROM wp_term_relationships AS r WHERE r.term_taxonomy_id = wp_term_taxonomy.term_taxonomy_id);

INSERT INTO wp_comments (comment_post_ID, comment_author, comment_author_email, comment_author_url, comment_author_IP, comment_date,
    comment_date_gmt, comment_content, comment_karma, comment_approved, comment_agent, comment_type)
SELECT 1000 + seq, CONCAT('Reader ', h % 1000), CONCAT('reader', h % 1000, '@blog.test'), '', '127.0.0.1', day, day,
    REPEAT(CONCAT('I remember the ', ELT(1 + h % 4, 'lamp', 'road', 'song', 'field'), ' well. '), 5), 0, '1', '', 'comment'
FROM (SELECT p.seq, CRC32(CONCAT('comment', {SEED}, p.seq, '-', c.seq)) AS h, '2014-01-01' + INTERVAL p.seq * 40 + c.seq * 7 MINUTE AS day
    FROM seq_1_to_{POSTS} AS p JOIN seq_1_to_{COMMENTS} AS c) AS source;
ANALYZE TABLE wp_posts, wp_comments, wp_term_relationships, wp_users, wp_usermeta, wp_terms, wp_term_taxonomy;
