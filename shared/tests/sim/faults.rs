//! Bad luck, as the seed has it, and its end.

use shared::domain::{Drain, Policy};

use crate::{event::Event, net::Cut, world::World};

impl World {
    pub(crate) fn fault(&mut self) {
        if self.calm.is_some() {
            return;
        }
        let pause = self.rng.between(500, 6_000) / (1 + self.plan.nodes as u64 / 8);
        self.after(pause, Event::Fault);
        let at = self.rng.index(self.agents.len());
        let luck = self.luck;
        if self.rng.chance(luck.cancel) {
            self.cancel_one();
        }
        if self.agents[at].is_retired || !self.agents[at].up || self.agents[at].frozen.is_some() {
            return;
        }
        // Whose luck is bad in one thing only meets it more often.
        let what = if luck.flip == 1_000 && self.rng.chance(500) { 4 } else { self.rng.below(8) };
        match what {
            0 if self.rng.chance(luck.kill) => self.kill(at),
            1 if self.rng.chance(luck.suspend) => {
                self.count("machines suspended");
                self.agents[at].frozen = Some(Vec::new());
                let length = self.longer_or_shorter();
                self.say(|world| format!("{} is suspended for {length} ms", world.agents[at].node));
                self.after(length, Event::Resume(at));
            }
            2 if self.rng.chance(luck.part) => {
                self.count("partitions");
                let (until, way) = (self.now + self.longer_or_shorter(), self.rng.below(4));
                self.agents[at].cut = Cut { until, out: way != 0, back: way != 1 };
                self.say(|world| format!("{} is cut off: {:?}", world.agents[at].node, world.agents[at].cut));
            }
            3 if self.rng.chance(luck.stop) => self.terminate(at),
            4 if self.rng.chance(luck.flip) => {
                self.count("policy flips");
                let drain = *self.rng.pick(&[Drain::None, Drain::None, Drain::Graceful, Drain::AtBoundary]);
                let since = self.since();
                self.agents[at].policy = Policy { drain, since, ..Policy::default() };
                self.say(|world| format!("the owner of {} writes {drain:?}", world.agents[at].node));
                self.beat_soon(at);
            }
            5 if self.rng.chance(luck.learn) => {
                let all = self.agents[at].all_skills.clone();
                self.agents[at].skills = all.into_iter().filter(|_| self.rng.chance(600)).collect();
                self.beat_soon(at);
            }
            6 if self.rng.chance(luck.clone) => self.copy(at),
            7 if self.rng.chance(luck.break_stream) => {
                if let Some(conn) = self.agents[at].conn {
                    let to = self.to(at);
                    self.break_stream(conn, to);
                }
            }
            _ => {}
        }
    }

    /// Of what the horizon tells apart, either.
    fn longer_or_shorter(&mut self) -> u64 {
        let short = if self.luck.think > 900 { 200 } else { 600 };
        if self.rng.chance(short) { self.rng.between(1_000, 40_000) } else { self.rng.between(50_000, 130_000) }
    }

    fn kill(&mut self, at: usize) {
        self.count("agents killed");
        let lost = self.rng.chance(self.luck.lose_disk);
        self.say(|world| {
            format!("{} is killed{}", world.agents[at].node, if lost { ", its disk is lost" } else { "" })
        });
        self.agents[at].die();
        if lost {
            self.count("disks lost");
            self.agents[at].disk = crate::agent::Disk::default();
        }
        let away = if self.rng.chance(750) { self.rng.between(100, 20_000) } else { self.rng.between(40_000, 120_000) };
        self.after(away, Event::Boot(at));
    }

    /// A second machine from an image of the first: of its disk, or of all its memory.
    fn copy(&mut self, of: usize) {
        if self.agents.iter().filter(|proc| proc.node == self.agents[of].node).count() > 2 {
            return;
        }
        let at = self.agents.len();
        let warm = self.rng.chance(500);
        let proc = self.agents[of].clone();
        self.agents.push(proc);
        self.say(|world| format!("{} is copied {}", world.agents[of].node, if warm { "warm" } else { "cold" }));
        if warm {
            self.count("warm copies");
            self.wake_copy(of, at);
        } else {
            self.count("cold copies");
            self.agents[at].die();
            let boots = self.rng.between(100, 30_000);
            self.after(boots, Event::Boot(at));
        }
    }

    /// No more faults: everybody comes back, and every owner lends.
    pub(crate) fn calm_down(&mut self) {
        self.say(|_| "from here on nothing goes wrong".to_owned());
        self.calm = Some(self.now);
        let (bad_end, luck) = (self.luck.bad_end, &mut self.luck);
        *luck = crate::plan::Luck { bad_end, ..crate::plan::Luck::default() };
        self.after(10_000, Event::MediatorStarts);
        for at in 0..self.agents.len() {
            self.agents[at].cut = Cut::default();
            self.agents[at].policy = Policy::default();
            self.agents[at].skills = self.agents[at].all_skills.clone();
            if at >= self.plan.nodes {
                self.agents[at].die();
                self.agents[at].is_retired = true;
                continue;
            }
            self.resume(at);
            if self.agents[at].up {
                self.beat_soon(at);
            } else {
                let boots = self.rng.between(100, 5_000);
                self.after(boots, Event::Boot(at));
            }
        }
    }
}
