//! Answers of reviews, for a while. Who asks what somebody else is asking already waits for that answer.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use tokio::time::Instant;

/// An answer, or why there is none. The latter is never kept.
pub(super) type Outcome<V> = Result<V, String>;

/// Questions at a time: who floods us with keys costs no more than these, and they are gone within the second in which the flood ends.
const QUESTIONS: usize = 64;

/// A bounded cache in front of something slow. Clones share it.
#[derive(Clone)]
pub(super) struct Cache<K, V>(Arc<Mutex<Inner<K, V>>>);

struct Inner<K, V> {
    /// Of answers.
    limit: usize,
    answers: HashMap<K, Kept<V>>,
    asking: HashMap<K, Shared<BoxFuture<'static, Outcome<V>>>>,
}

struct Kept<V> {
    answer: V,
    since: Instant,
    until: Instant,
}

// === impl Cache ===

impl<K, V> Cache<K, V>
where
    K: Clone + Eq + Hash + Send + 'static,
    V: Clone + Send + Sync + 'static,
{
    pub(super) fn new(limit: usize) -> Self {
        Self(Arc::new(Mutex::new(Inner { limit, answers: HashMap::new(), asking: HashMap::new() })))
    }

    /// The answer for a key: from the cache, from whoever is asking already, or by asking. `keep` says for how long an answer holds. The
    /// asking goes on if whoever began it does not wait for it.
    pub(super) async fn get<F>(&self, key: K, ask: impl FnOnce() -> F, keep: impl Fn(&V) -> Duration + Send + 'static) -> Outcome<V>
    where
        F: Future<Output = Outcome<V>> + Send + 'static,
    {
        let waiting = {
            let mut inner = self.0.lock();
            let now = Instant::now();
            if let Some(kept) = inner.answers.get(&key).filter(|kept| now < kept.until) {
                return Ok(kept.answer.clone());
            }
            if let Some(asking) = inner.asking.get(&key) {
                asking.clone()
            } else if inner.asking.len() >= QUESTIONS {
                return Err("too many others are being asked about".to_owned());
            } else {
                let (cache, kept_as, asked) = (self.clone(), key.clone(), ask());
                let task = tokio::spawn(async move {
                    let outcome = asked.await;
                    cache.finish(&kept_as, &outcome, keep);
                    outcome
                });
                let asking = task.map(|ended| ended.unwrap_or_else(|error| Err(error.to_string()))).boxed().shared();
                inner.asking.insert(key, asking.clone());
                asking
            }
        };
        waiting.await
    }

    fn finish(&self, key: &K, outcome: &Outcome<V>, keep: impl Fn(&V) -> Duration) {
        let mut inner = self.0.lock();
        inner.asking.remove(key);
        let Ok(answer) = outcome else { return };
        let (since, time) = (Instant::now(), keep(answer));
        if time.is_zero() {
            return;
        }
        inner.make_room(since);
        inner.answers.insert(key.clone(), Kept { answer: answer.clone(), since, until: since + time });
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.0.lock().answers.len()
    }
}

// === impl Inner ===

impl<K: Clone + Eq + Hash, V> Inner<K, V> {
    /// Drops what has expired, and the oldest answer if that is not enough.
    fn make_room(&mut self, now: Instant) {
        if self.answers.len() < self.limit {
            return;
        }
        self.answers.retain(|_, kept| now < kept.until);
        if self.answers.len() < self.limit {
            return;
        }
        let oldest = self.answers.iter().min_by_key(|(_, kept)| kept.since).map(|(key, _)| key.clone());
        if let Some(oldest) = oldest {
            self.answers.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    const KEEP: Duration = Duration::from_secs(10);

    /// Asks for `key`, slowly, and counts.
    async fn ask(cache: &Cache<u32, u32>, key: u32, outcome: Outcome<u32>, asked: &Arc<AtomicU32>) -> Outcome<u32> {
        let asked = Arc::clone(asked);
        let slow = move || async move {
            asked.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_secs(1)).await;
            outcome
        };
        cache.get(key, slow, |_| KEEP).await
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_holds_for_its_time() {
        let (cache, asked) = (Cache::new(10), Arc::default());
        assert_eq!(ask(&cache, 1, Ok(1), &asked).await, Ok(1));
        tokio::time::advance(KEEP / 2).await;
        assert_eq!(ask(&cache, 1, Ok(2), &asked).await, Ok(1));
        tokio::time::advance(KEEP / 2).await;
        assert_eq!(ask(&cache, 1, Ok(3), &asked).await, Ok(3));
        assert_eq!(asked.load(Ordering::Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn one_asks_for_all_and_a_failure_is_not_kept() {
        let (cache, asked) = (Cache::new(10), Arc::default());
        let all = (0..5).map(|_| ask(&cache, 1, Err("away".to_owned()), &asked));
        assert_eq!(futures::future::join_all(all).await, vec![Err("away".to_owned()); 5]);
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        assert_eq!(ask(&cache, 1, Ok(7), &asked).await, Ok(7));
        assert_eq!(asked.load(Ordering::Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn who_goes_away_does_not_take_the_answer_along() {
        let (cache, asked) = (Cache::new(10), Arc::default());
        let impatient = tokio::time::timeout(Duration::from_millis(1), ask(&cache, 1, Ok(1), &asked));
        assert!(impatient.await.is_err());
        assert_eq!(ask(&cache, 1, Ok(2), &asked).await, Ok(1));
        assert_eq!(asked.load(Ordering::Relaxed), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_questions_stays_within_the_limit() {
        let (cache, asked) = (Cache::new(1000), Arc::default());
        let all = (0..500).map(|key| ask(&cache, key, Ok(key), &asked));
        let answers = futures::future::join_all(all).await;
        assert_eq!(
            (asked.load(Ordering::Relaxed) as usize, answers.iter().filter(|answer| answer.is_ok()).count()),
            (QUESTIONS, QUESTIONS)
        );
        assert_eq!(ask(&cache, 499, Ok(7), &asked).await, Ok(7));
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_keys_stays_within_the_limit() {
        let (cache, asked) = (Cache::new(3), Arc::default());
        for key in 0..10 {
            ask(&cache, key, Ok(key), &asked).await.unwrap();
        }
        assert_eq!(cache.len(), 3);
        assert_eq!(ask(&cache, 9, Ok(0), &asked).await, Ok(9));
    }
}
