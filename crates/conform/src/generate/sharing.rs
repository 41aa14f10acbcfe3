//! Random scripts whose sessions share one connection, so that each meets what the one before left on it.
//!
//! *Actors* do what leaves something behind, one idea after the other. After their steps *lookers* ask for all that they
//! must not see, and newcomers log in, ask the same and go. The runner leaves out steps that would wait for a connection
//! that another session keeps.

use super::{Generator, Shape, login, rights, tables};
use crate::random::Random;
use crate::script::{Action, Login, Script, Step};

/// Sessions that only look.
const LOOKERS: [usize; 2] = [21, 22];
/// The first session that logs in to look once.
const NEWCOMERS: usize = 30;

/// The script of a seed, for sessions that share a connection.
pub fn share(seed: u64, shape: Shape) -> Script {
    let mut random = Random::new(seed ^ 0x5a5a_5a5a);
    let actors = 2 + random.below(4);
    let steps = 30 + random.below(60);
    let mut script =
        Script { primary_only: shape.primary_only, pipelined: shape.pipelined, shared: true, ..Script::default() };
    script.title.push(format!("seed {seed}"));
    // Only sessions that log in alike share connections.
    let common = login(&mut random);
    let odd = random.once_in(4);
    let mut generator = Generator { random, family: shape.family, me: 0, keeper: true, number: 0 };
    let accounts = generator.random.once_in(6);
    let mut sharing = Sharing { generator, script, common, odd, newcomer: NEWCOMERS };
    if accounts {
        sharing.rights(steps);
    } else {
        sharing.actors(actors, steps);
    }
    let mut script = sharing.script;
    let set_up = tables::set_up(actors, shape.family, &script.steps);
    script.steps.splice(0..0, set_up);
    script
}

struct Sharing {
    generator: Generator,
    script: Script,
    /// How sessions log in.
    common: Login,
    /// Some log in differently.
    odd: bool,
    newcomer: usize,
}

impl Sharing {
    fn step(&mut self, session: usize, action: Action) {
        if !self.script.logins.contains_key(&session) {
            let other = self.odd && self.generator.random.once_in(3);
            let login = if other { login(&mut self.generator.random) } else { self.common };
            self.script.logins.insert(session, login);
        }
        self.script.steps.push(Step { session, action });
    }

    fn actors(&mut self, actors: usize, steps: usize) {
        let mut me = 1;
        while self.script.steps.len() < steps {
            if self.generator.random.below(5) > 1 {
                me = 1 + self.generator.random.below(actors);
            }
            self.generator.me = me;
            let mut idea =
                if self.generator.random.below(3) > 0 { self.generator.leaving() } else { self.generator.idea() };
            if self.generator.random.once_in(9) {
                idea.pop();
            }
            if self.generator.random.below(5) > 0 {
                idea.extend(self.generator.end());
            }
            for action in idea {
                self.step(me, action);
                self.look(me);
            }
        }
    }

    /// Others look for what a session left.
    fn look(&mut self, actor: usize) {
        match self.generator.random.below(8) {
            0..=3 => {
                let looker = LOOKERS[self.generator.random.below(LOOKERS.len())];
                let actions = self.generator.looking(actor);
                // A session that asks for it keeps the connection: no other one would do anything any more.
                let keeps = actions.iter().any(|action| action.to_string().contains("LASTVAL"));
                for action in actions {
                    self.step(looker, action);
                }
                if keeps {
                    self.step(looker, Action::Quit);
                }
            }
            4 => {
                self.newcomer += 1;
                let (session, looks) = (self.newcomer, 1 + self.generator.random.below(2));
                for _ in 0..looks {
                    for action in self.generator.looking(actor) {
                        self.step(session, action);
                    }
                }
                let leave = if self.generator.random.once_in(4) { Action::Cut } else { Action::Quit };
                self.step(session, leave);
            }
            _ => {}
        }
    }

    fn rights(&mut self, steps: usize) {
        for action in rights::set_up(&mut self.generator) {
            self.script.steps.push(Step { session: 0, action });
        }
        let mut users = Vec::new();
        while self.script.steps.len() < steps {
            for turn in rights::turn(&mut self.generator, &mut users) {
                self.script.logins.entry(turn.session).or_insert(Login { account: turn.account, ..self.common });
                if turn.other_password {
                    self.script.logins.entry(turn.session).and_modify(|login| login.other_password = true);
                }
                self.script.steps.push(Step { session: turn.session, action: turn.action });
            }
        }
    }
}
