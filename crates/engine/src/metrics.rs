//! The engine's figures for Prometheus, in the OpenMetrics text format.
//!
//! Names follow Prometheus's conventions: they begin with `thermocline_`; units are seconds and
//! bytes and end the name; counters end in `_total`. Pools are told apart by name. Those that were
//! removed have no figures: a pool that is gone is not down, and another one may have its name.

mod clients;

use crate::api::{
    Backing, BlockCache, Bucket, PlacementFigures, Pool, PoolPins, Status, VolumeSla,
};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use std::fmt;
use thermocline_admin::metrics::{Series, Value, family};
use thermocline_policy::hints::Waits;
use thermocline_units::Latencies;
use thermocline_volume::settings::BLOCK;

/// A copy of everything that is measured.
#[derive(Debug)]
pub(crate) struct Figures {
    pub(crate) status: Status,
    /// Latencies of reads and of writes by rank, as in the status.
    pub(crate) pools: Vec<[Latencies; 2]>,
    /// Latencies by kind of request.
    pub(crate) requests: Vec<(&'static str, Latencies)>,
    /// Time that users waited less, and longer, because of hints.
    pub(crate) hints: Waits,
    /// Pins by rank, as in the status.
    pub(crate) pins: Vec<PoolPins>,
}

/// Takes one figure of a pool.
type OfPool = fn(&Pool) -> u64;

/// Takes one figure of a placement, if there is one.
type OfPlacement = fn(&PlacementFigures) -> Option<f64>;

/// Takes one figure of a bucket.
type OfBucket = fn(&Bucket) -> u64;

/// Takes one price of a bucket, if there are prices.
type OfPrices = fn(&Bucket) -> Option<f64>;

/// Takes one figure of a block cache.
type OfCache = fn(&BlockCache) -> u64;

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        self.group(&mut encoder)?;
        clients::encode(&self.status.clients, &mut encoder)?;
        self.counters(&mut encoder)?;
        self.caches(&mut encoder)?;
        self.buckets(&mut encoder)?;
        self.shadows(&mut encoder)?;
        self.hints(&mut encoder)?;
        self.latencies(&mut encoder)
    }
}

impl Figures {
    fn group(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let status = &self.status;
        let journal = |blocks: u64| (blocks * u64::from(BLOCK)) as f64;
        let gauges = [
            ("up", "Whether requests are taken", f64::from(u8::from(status.service == "ready"))),
            ("uptime_seconds", "Time since the start", status.uptime_seconds),
            ("requests_in_flight", "Client requests under way", status.in_flight as f64),
            ("operations_pending", "Moves queued and under way", status.operations_pending as f64),
            ("journal_size_bytes", "Size of the journal ring", journal(status.journal.blocks)),
            ("journal_used_bytes", "What a recovery replays", journal(status.journal.used)),
            ("map_bytes", "Memory of the chunk map", status.map_bytes as f64),
        ];
        for (name, help, value) in gauges {
            family(encoder, (name, help), vec![(Vec::new(), Value::Gauge(value))])?;
        }
        let dropped = [
            (vec![("reason", "expired")], Value::Counter(status.moves_dropped.expired)),
            (vec![("reason", "slower")], Value::Counter(status.moves_dropped.slower)),
            (vec![("reason", "worn")], Value::Counter(status.moves_dropped.worn)),
        ];
        family(encoder, ("moves_dropped", "Moves of policies given up"), dropped.into())?;
        let help = "Bytes that clients' own reads brought to where chunks move";
        let fed = Value::Counter(status.moves_fed_bytes);
        family(encoder, ("moves_fed_bytes", help), vec![(Vec::new(), fed)])?;
        self.account(encoder)?;
        self.lines(encoder)?;
        let help = "Chunks in two parts, mirrored or redirected";
        let chunks = Value::Gauge(status.parts.chunks as f64);
        family(encoder, ("chunks_in_two_parts", help), vec![(Vec::new(), chunks)])?;
        if let (Some(reads), Some(writes)) =
            (status.parts.diverted_reads, status.parts.diverted_writes)
        {
            let help = "Share of requests to mirrored chunks that the slower side answers";
            let shares = [("read", reads), ("write", writes)]
                .map(|(kind, share)| (vec![("kind", kind)], Value::Gauge(share)));
            family(encoder, ("diverted_ratio", help), shares.into())?;
        }
        if let Some(rate) = status.copy_rate_bytes {
            let help = "Bytes a second that operations may copy on a pool now";
            let value = Value::Gauge(rate as f64);
            family(encoder, ("copy_rate_bytes_per_second", help), vec![(Vec::new(), value)])?;
        }
        self.scrubs(encoder)?;
        let written = Value::Counter(status.journal.written * u64::from(BLOCK));
        let help = "Bytes written to the journal";
        family(encoder, ("journal_written_bytes", help), vec![(Vec::new(), written)])?;
        if let Some(share) = status.fastest_pool_share {
            let help = "Share of the bytes read by clients that the fastest pool served";
            let value = Value::Gauge(share);
            family(encoder, ("fastest_pool_read_ratio", help), vec![(Vec::new(), value)])?;
        }
        let sizes = status.volumes.iter().map(|volume| {
            (vec![("volume", volume.name.as_str())], Value::Gauge(volume.size_bytes as f64))
        });
        family(encoder, ("volume_size_bytes", "Size of a volume"), sizes.collect())?;
        self.slas(encoder)
    }

    /// Metrics of the account that the policy keeps, if it keeps one.
    fn account(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Some(account) = &self.status.policy.account else { return Ok(()) };
        // Gauges: the sums go on where the engine last saved them, and may be lower after a crash.
        let gauges = [
            ("policy_waited_seconds", "Time that users waited", account.waited_seconds),
            ("policy_saved_seconds", "Time that moves have saved", account.saved_seconds),
            ("policy_spent_seconds", "Time that copies made users wait", account.spent_seconds),
            ("policy_promised_seconds", "Time that moves were to save", account.promised_seconds),
            ("policy_came_seconds", "Savings out of those promised", account.came_seconds),
            (
                "policy_moved_bytes",
                "Bytes of chunks that changed pools",
                account.moved_bytes as f64,
            ),
            ("policy_would_save_ratio", "Share of time to be saved", account.would_save_ratio),
        ];
        for (name, help, value) in gauges {
            family(encoder, (name, help), vec![(Vec::new(), Value::Gauge(value))])?;
        }
        Ok(())
    }

    /// Metrics of lines of 4 KiB on the fastest pool.
    fn lines(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let lines = &self.status.lines;
        let lent = lines.slots_lent * self.status.chunk_bytes;
        let gauges = [
            ("lines", "Blocks of 4 KiB that can be read on the fastest pool", lines.lines),
            ("lines_lent_bytes", "Room of the fastest pool that is lent to lines", lent),
            ("lines_memory_bytes", "Memory of the index of lines", lines.memory_bytes),
        ];
        for (name, help, value) in gauges {
            family(encoder, (name, help), vec![(Vec::new(), Value::Gauge(value as f64))])?;
        }
        let counters = [
            ("lines_hits", "Reads that lines answered", lines.hits),
            ("lines_misses", "Short reads that lines could not answer", lines.misses),
            ("lines_filled_bytes", "Bytes written to lines", lines.filled_bytes),
            ("lines_wrong", "Lines that could not be read, or read wrongly", lines.wrong),
        ];
        for (name, help, value) in counters {
            family(encoder, (name, help), vec![(Vec::new(), Value::Counter(value))])?;
        }
        Ok(())
    }

    /// Metrics of volumes that have an SLA.
    fn slas(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let series = |value: fn(&VolumeSla) -> Value<'static>| -> Series<'_> {
            let volumes = self.status.volumes.iter();
            let with_sla = volumes.filter_map(|volume| Some((volume, volume.sla.as_ref()?)));
            with_sla
                .map(|(volume, sla)| {
                    let labels =
                        vec![("volume", volume.name.as_str()), ("class", sla.class.as_str())];
                    (labels, value(sla))
                })
                .collect()
        };
        let latency = series(|sla| Value::Gauge(sla.latency_us / 1e6));
        family(
            encoder,
            ("volume_sla_latency_seconds", "Latency that the volume's SLA allows"),
            latency,
        )?;
        let answered = series(|sla| Value::Counter(sla.answered));
        let help = "Requests to the volume that were held against its SLA";
        family(encoder, ("volume_sla_requests", help), answered)?;
        let violations = series(|sla| Value::Counter(sla.violations));
        let help = "Requests to the volume answered later than its SLA allows";
        family(encoder, ("volume_sla_violations", help), violations)
    }

    /// Metrics of verifying.
    fn scrubs(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let scrub = &self.status.scrub;
        let runs = f64::from(u8::from(scrub.state == "running"));
        let bytes = |blocks: u64| blocks * u64::from(BLOCK);
        let gauges = [
            ("scrub_running", "Whether a scrub is under way", runs),
            ("scrub_progress_ratio", "Share of the map that the last scrub passed", scrub.progress),
        ];
        for (name, help, value) in gauges {
            family(encoder, (name, help), vec![(Vec::new(), Value::Gauge(value))])?;
        }
        let counters = [
            ("scrub_read_bytes", "Bytes read to verify and repair", scrub.read_bytes),
            (
                "scrub_repaired_bytes",
                "Bytes written again from a copy",
                bytes(scrub.repaired_blocks),
            ),
            (
                "scrub_unrepairable_bytes",
                "Bytes no copy has right",
                bytes(scrub.unrepairable_blocks),
            ),
            (
                "scrub_undecided_bytes",
                "Bytes in which copies differ",
                bytes(scrub.undecided_blocks),
            ),
            ("checksum_tables_lost", "Chunks whose checksums were lost", scrub.lost_tables),
        ];
        for (name, help, value) in counters {
            family(encoder, (name, help), vec![(Vec::new(), Value::Counter(value))])?;
        }
        Ok(())
    }

    fn counters(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let is_up = |p: &Pool| u64::from(p.state == "active" || p.state == "suspect");
        let gauges: [(&str, &str, OfPool); 3] = [
            ("pool_up", "Whether the pool is in service", is_up),
            ("pool_requests_in_flight", "Client requests on its device", |p| p.in_flight),
            ("pool_full", "Whether its device has no room for writes", |p| p.full.into()),
        ];
        for (name, help, figure) in gauges {
            let series = self.by_pool(|pool| Value::Gauge(figure(pool) as f64));
            family(encoder, (name, help), series)?;
        }
        let silence = |pool: &Pool| Value::Gauge(pool.unanswered_seconds.unwrap_or(0.0));
        let help = "Time for which a suspect pool's device has not answered; 0: it answers";
        family(encoder, ("pool_unanswered_seconds", help), self.by_pool(silence))?;
        self.rooms(encoder)?;
        let chunk = self.status.chunk_bytes;
        let size = self.by_pool(|pool| Value::Gauge((pool.chunks_total * chunk) as f64));
        family(encoder, ("pool_size_bytes", "Room for chunks on the pool"), size)?;
        let used = self.by_pool(|pool| Value::Gauge((pool.chunks_used * chunk) as f64));
        family(encoder, ("pool_used_bytes", "Room that its chunks take"), used)?;
        let counters: [(&str, &str, OfPool); 8] = [
            ("pool_read_bytes", "Bytes read for clients", |p| p.counters.read_bytes),
            ("pool_written_bytes", "Bytes written for clients", |p| p.counters.written_bytes),
            ("pool_moved_in_bytes", "Bytes written by operations", |p| p.counters.moved_in_bytes),
            ("pool_moved_out_bytes", "Bytes read by operations", |p| p.counters.moved_out_bytes),
            ("pool_metadata_bytes", "Bytes of journal, checkpoints and superblocks", |p| {
                p.counters.metadata_bytes
            }),
            ("pool_flushes", "Flushes of the device", |p| p.counters.flushes),
            ("pool_errors", "Requests that failed", |p| p.counters.errors),
            ("pool_checksum_errors", "Blocks whose contents did not match their checksum", |p| {
                p.counters.checksum_errors
            }),
        ];
        for (name, help, figure) in counters {
            let series = self.by_pool(|pool| Value::Counter(figure(pool)));
            family(encoder, (name, help), series)?;
        }
        Ok(())
    }

    /// Room for what was promised: to volumes, and to files that grow.
    fn rooms(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let (promised, room) = self.status.promised_and_room_bytes();
        let help = "Size of all volumes over the size of all pools in service";
        let ratio = Value::Gauge(promised as f64 / room.max(1) as f64);
        family(encoder, ("overcommit_ratio", help), vec![(Vec::new(), ratio)])?;
        type Figure = fn(&Backing) -> u64;
        let figures: [(&str, &str, Figure); 2] = [
            ("pool_may_grow_bytes", "Bytes its files may still take", |b| b.may_grow_bytes),
            ("pool_backing_free_bytes", "Bytes left on their file system", |b| b.free_bytes),
        ];
        for (name, help, figure) in figures {
            let of = |pool: &'_ Pool| pool.backing.as_ref().map(figure);
            let pools = self.pools().filter_map(|pool| Some((pool, of(pool)?)));
            let series = pools.map(|(pool, bytes)| {
                (vec![("pool", pool.name.as_str())], Value::Gauge(bytes as f64))
            });
            family(encoder, (name, help), series.collect())?;
        }
        Ok(())
    }

    /// Metrics of pools with a block cache.
    fn caches(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let gauges: [(&str, &str, OfCache); 3] = [
            ("cache_size_bytes", "Room of the pool's block cache", |c| c.size_bytes),
            ("cache_used_bytes", "Bytes in the block cache", |c| c.cached_bytes),
            ("cache_dirty_bytes", "Bytes that only the block cache has", |c| c.dirty_bytes),
        ];
        for (name, help, figure) in gauges {
            let series = self.by_cache(|cache| Value::Gauge(figure(cache) as f64));
            family(encoder, (name, help), series)?;
        }
        let counters: [(&str, &str, OfCache); 8] = [
            ("cache_hit_bytes", "Bytes read from the block cache", |c| c.hit_bytes),
            ("cache_missed_bytes", "Bytes read from the device behind it", |c| c.missed_bytes),
            ("cache_read_around_bytes", "Bytes read around it", |c| c.read_around_bytes),
            ("cache_written_bytes", "Bytes written to the block cache", |c| c.written_bytes),
            ("cache_written_around_bytes", "Bytes written around it", |c| c.written_around_bytes),
            ("cache_filled_bytes", "Bytes kept after a read", |c| c.filled_bytes),
            ("cache_written_back_bytes", "Bytes taken back", |c| c.written_back_bytes),
            ("cache_table_bytes", "Bytes written to its table", |c| c.table_bytes),
        ];
        for (name, help, figure) in counters {
            let series = self.by_cache(|cache| Value::Counter(figure(cache)));
            family(encoder, (name, help), series)?;
        }
        Ok(())
    }

    fn by_cache<'a>(&'a self, value: impl Fn(&'a BlockCache) -> Value<'a>) -> Series<'a> {
        let cached = self.pools().filter_map(|pool| Some((pool, pool.cache.as_ref()?)));
        cached.map(|(pool, cache)| (vec![("pool", pool.name.as_str())], value(cache))).collect()
    }

    fn buckets(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let with_bucket =
            || self.pools().filter_map(|pool| Some((pool.name.as_str(), pool.bucket.as_ref()?)));
        let kinds: [(&str, OfBucket); 4] = [
            ("put", |bucket| bucket.puts),
            ("get", |bucket| bucket.gets),
            ("list", |bucket| bucket.lists),
            ("delete", |bucket| bucket.deletes),
        ];
        let requests = with_bucket().flat_map(|(name, bucket)| {
            kinds.map(|(kind, figure)| {
                (vec![("pool", name), ("kind", kind)], Value::Counter(figure(bucket)))
            })
        });
        let help = "Requests to the object store, tries included";
        family(encoder, ("bucket_requests", help), requests.collect())?;
        let counters: [(&str, &str, OfBucket); 5] = [
            ("bucket_failed_requests", "Requests that failed", |bucket| bucket.failed),
            ("bucket_sent_bytes", "Bytes sent to the object store", |bucket| bucket.sent_bytes),
            ("bucket_received_bytes", "Bytes received", |bucket| bucket.received_bytes),
            ("bucket_read_ahead_bytes", "Bytes asked for ahead of streams of reads", |bucket| {
                bucket.read_ahead_bytes
            }),
            ("bucket_read_ahead_used_bytes", "Bytes of these that were read", |bucket| {
                bucket.read_ahead_used_bytes
            }),
        ];
        for (name, help, figure) in counters {
            let of = |(pool, bucket)| (vec![("pool", pool)], Value::Counter(figure(bucket)));
            family(encoder, (name, help), with_bucket().map(of).collect())?;
        }
        let gauges: [(&str, &str, OfBucket); 3] = [
            ("bucket_objects", "Objects that hold contents", |bucket| bucket.objects),
            ("bucket_stored_bytes", "Bytes of these", |bucket| bucket.stored_bytes),
            ("bucket_unsent_bytes", "Bytes only in memory", |bucket| bucket.unsent_bytes),
        ];
        for (name, help, figure) in gauges {
            let of = |(pool, bucket)| (vec![("pool", pool)], Value::Gauge(figure(bucket) as f64));
            family(encoder, (name, help), with_bucket().map(of).collect())?;
        }
        let prices: [(&str, &str, OfPrices); 2] = [
            ("bucket_cost", "What requests cost since the start", |bucket| bucket.cost),
            ("bucket_month_cost", "What a month of the objects costs", |bucket| bucket.cost_month),
        ];
        for (name, help, figure) in prices {
            let of = |(pool, bucket)| Some((vec![("pool", pool)], Value::Gauge(figure(bucket)?)));
            family(encoder, (name, help), with_bucket().filter_map(of).collect())?;
        }
        Ok(())
    }

    /// Metrics of hints and pins.
    fn hints(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let pins = || self.pins.iter();
        let both = |waits: Waits| [("saved", waits.saved), ("lost", waits.lost)];
        let told = |(what, seconds)| (vec![("effect", what)], Value::Seconds(seconds));
        let help =
            "Time that users waited less (saved) or longer (lost) because hints were followed";
        family(encoder, ("hints_waiting_seconds", help), both(self.hints).map(told).into())?;
        let waits = pins().flat_map(|pins| {
            let waits = Waits { saved: pins.saved_seconds, lost: pins.lost_seconds };
            both(waits).map(|(what, seconds)| {
                (vec![("pool", pins.pool.as_str()), ("effect", what)], Value::Seconds(seconds))
            })
        });
        let help =
            "Time that users waited less (saved) or longer (lost) because chunks were pinned";
        family(encoder, ("pins_waiting_seconds", help), waits.collect())?;
        let chunks = pins().flat_map(|pins| {
            let counts = [
                ("held", pins.held_chunks),
                ("wrong", pins.wrong_chunks),
                ("beyond_budget", pins.beyond_chunks),
                ("by_name", pins.by_name_chunks),
            ];
            counts.map(|(state, count)| {
                let labels = vec![("pool", pins.pool.as_str()), ("state", state)];
                (labels, Value::Gauge(count as f64))
            })
        });
        family(encoder, ("pinned_chunks", "Chunks that are pinned"), chunks.collect())
    }

    /// Metrics of shadows, and of what was done meanwhile.
    fn shadows(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let latency = |figures: &PlacementFigures| figures.mean_latency_us.map(|us| us / 1e6);
        let gauges: [(&str, &str, OfPlacement); 2] = [
            ("shadow_latency_seconds", "Expected mean latency, last epoch", latency),
            ("shadow_fastest_pool_ratio", "Share of accesses it served, last epoch", |figures| {
                figures.fastest_pool_share
            }),
        ];
        for (name, help, figure) in gauges {
            let both = self.status.shadows.iter().flat_map(|shadow| {
                let of = |what, figures| {
                    let labels = vec![("policy", shadow.name.as_str()), ("placement", what)];
                    Some((labels, Value::Gauge(figure(figures)?)))
                };
                [of("shadow", &shadow.epoch), of("actual", &shadow.actual_epoch)]
            });
            family(encoder, (name, help), both.flatten().collect())?;
        }
        let both = self.status.shadows.iter().flat_map(|shadow| {
            [("shadow", &shadow.total), ("actual", &shadow.actual_total)].into_iter().flat_map(
                move |(what, figures)| {
                    figures.written.iter().map(move |written| {
                        let labels = vec![
                            ("policy", shadow.name.as_str()),
                            ("placement", what),
                            ("pool", written.pool.as_str()),
                        ];
                        let bytes = written.client_bytes + written.moved_bytes;
                        (labels, Value::Counter(bytes))
                    })
                },
            )
        });
        let help = "Bytes written by clients and moves since the shadow began";
        family(encoder, ("shadow_written_bytes", help), both.collect())?;
        let both = self.status.shadows.iter().flat_map(|shadow| {
            [("shadow", &shadow.total), ("actual", &shadow.actual_total)].map(|(what, figures)| {
                let labels = vec![("policy", shadow.name.as_str()), ("placement", what)];
                (labels, Value::Counter(figures.moved_bytes))
            })
        });
        let help = "Bytes of chunks moved since the shadow began";
        family(encoder, ("shadow_moved_bytes", help), both.collect())
    }

    /// Pools that the group has, fastest first.
    fn pools(&self) -> impl Iterator<Item = &Pool> {
        self.status.pools.iter().filter(|pool| !pool.is_removed())
    }

    /// A series with a value for each pool.
    fn by_pool<'a>(&'a self, value: impl Fn(&'a Pool) -> Value<'a>) -> Series<'a> {
        self.pools().map(|pool| (vec![("pool", pool.name.as_str())], value(pool))).collect()
    }

    fn latencies(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let requests = self
            .requests
            .iter()
            .map(|(kind, latencies)| (vec![("op", *kind)], Value::Histogram(latencies)));
        let help = "Latency of client requests";
        family(encoder, ("request_duration_seconds", help), requests.collect())?;
        let pools = self.status.pools.iter().zip(&self.pools);
        let pools = pools.filter(|(pool, _)| !pool.is_removed()).flat_map(|(pool, latencies)| {
            ["read", "write"].iter().zip(latencies).map(move |(&op, latencies)| {
                let labels = vec![("pool", pool.name.as_str()), ("op", op)];
                (labels, Value::Histogram(latencies))
            })
        });
        let help = "Latency of client requests on the pool's device";
        family(encoder, ("pool_request_duration_seconds", help), pools.collect())
    }
}
