//! Against real servers and real clients.

#[cfg(test)]
mod real {
    mod clients;
    mod mariadb;
    mod mysql;
    mod plugins;
    mod support;
}
