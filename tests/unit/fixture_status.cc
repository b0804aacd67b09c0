#include "tests/unit/fixture_status.h"

#include <string>

namespace profctl {

profd::v1::GetStatusResponse PlainStatus() {
  profd::v1::GetStatusResponse status;
  status.set_daemon_version("0.1.0");
  status.set_kernel_release("6.12.0");
  status.set_started_ns(1'769'864'700'000'000'000);
  status.set_oldest_ns(1'769'864'701'000'000'000);
  status.set_tick_interval_ns(10'000'000);
  status.set_threads(54);
  status.set_modules(2);
  status.set_module_slots_in_use(3'072);
  status.set_module_slots(4'095);
  status.set_retired_modules(12'345);
  profd::v1::TargetStatus& target = *status.add_targets();
  target.set_selector("^reth$\x1b");
  target.add_pids(4242);
  target.set_threads(54);
  status.add_targets()->set_selector("postgres");
  profd::v1::LayerStatus& layer = *status.add_layers();
  layer.set_name("switch");
  layer.set_on(true);
  status.add_missing("kernel names: CAP_SYSLOG is missing; start profd with it");
  profd::v1::ModuleStatus& module = *status.add_module_list();
  module.set_path("/usr/lib/weird.so");
  module.set_note("no .eh_frame");
  status.add_programs()->set_name("on_switch");
  status.mutable_programs(0)->set_recursion_misses(3);
  status.mutable_memory()->set_daemon_rss_bytes(30 << 20);
  status.add_capabilities("cap_bpf");
  return status;
}

profd::v1::GetStatusResponse ShedStatus() {
  profd::v1::GetStatusResponse status;
  status.set_started_ns(1'769'864'700'000'000'000);
  status.set_tick_interval_ns(40'000'000);
  profd::v1::Cost& cost = *status.mutable_cost();
  cost.set_duration_ns(100'000'000'000);
  cost.set_daemon_cpu_ns(1'500'000'000);
  cost.set_tick_cpu_ns(1'000'000'000);
  cost.set_drain_cpu_ns(200'000'000);
  cost.set_rules_cpu_ns(30'000'000);
  cost.set_answers_cpu_ns(20'000'000);
  cost.set_in_path_ns(300'000'000);
  cost.set_switches(1'000'000);
  profd::v1::TargetStatus& target = *status.add_targets();
  target.set_selector("^reth$");
  target.mutable_cost()->set_target(1);
  target.mutable_cost()->set_in_path_ns(300'000'000);
  target.mutable_cost()->set_tick_cpu_ns(1'000'000'000);
  target.mutable_cost()->set_drain_cpu_ns(200'000'000);
  target.mutable_cost()->set_switches(1'000'000);
  *cost.add_targets() = target.cost();
  profd::v1::Governor& governor = *status.mutable_governor();
  governor.set_budget(0.02);
  governor.set_share(0.01);
  governor.set_of_targets(true);
  governor.set_saved_s(0.25);
  governor.set_fixed_cost(0.0005);
  governor.set_changes(2);
  profd::v1::GovernedSource& per_switch = *governor.add_sources();
  per_switch.set_name("switch");
  per_switch.set_in_path(true);
  per_switch.set_level(1);
  per_switch.set_given_up("exact time by reason: the tick's shares are used instead");
  per_switch.set_whole_cost(0.0412);
  profd::v1::GovernedSource& tick = *governor.add_sources();
  tick.set_name("tick");
  tick.set_level(5);
  tick.set_given_up(
      "threads that only wait are visited at one tick of 16, a tick every 40 ms instead of every "
      "10 ms");
  tick.set_cost(0.0178);
  tick.set_whole_cost(0.062);
  return status;
}

profd::v1::GetStatusResponse AllocatorsStatus() {
  profd::v1::GetStatusResponse status;
  profd::v1::LayerStatus& layer = *status.add_layers();
  layer.set_name("heap");
  layer.set_on(true);
  profd::v1::AllocatorStatus& watched = *status.add_allocators();
  for (const int pid : {4242, 4243}) watched.add_pids(pid);
  watched.set_module("/usr/local/bin/reth");
  watched.set_build_id("ab12");
  watched.set_allocator("jemalloc");
  watched.set_version("5.3.0");
  watched.set_found_by("symbol");
  watched.set_watched(true);
  watched.mutable_allocated()->set_bytes(int64_t{1331} << 20);
  watched.mutable_allocated()->set_events(20'800);
  watched.mutable_allocated()->set_weight_bytes(int64_t{1300} << 20);
  watched.mutable_freed()->set_bytes(int64_t{1200} << 20);
  watched.mutable_freed()->set_events(9'600);
  watched.mutable_freed()->set_weight_bytes(int64_t{600} << 20);
  watched.mutable_freed()->set_gaps(9'600);
  watched.mutable_freed()->set_unseen_bytes(int64_t{600} << 20);
  watched.set_live_since_ns(1'769'864'700'000'000'000);
  watched.set_live_bytes(int64_t{12} << 20);
  watched.set_live_objects(1234);
  watched.set_sample_bytes(1 << 19);
  profd::v1::AllocatorStatus& unwatched = *status.add_allocators();
  for (int pid = 100; pid < 1100; ++pid) unwatched.add_pids(pid);
  unwatched.set_module("/opt/\x1b/lib" + std::string(200, 'x') + ".so");
  unwatched.set_allocator("jemalloc");
  unwatched.set_note(
      "the file has no symbols and no function of its shape; install its debug file, or start the "
      "program with a library that has symbols");
  unwatched.set_live_note(
      "the live heap is not known: jemalloc runs without profiling; start the process with "
      "MALLOC_CONF=prof:true");
  profd::v1::Cost& cost = *status.mutable_cost();
  cost.set_duration_ns(60'000'000'000);
  cost.set_in_path_ns(64'000'000);
  cost.set_heap_in_path_ns(16'000'000);
  cost.set_heap_events(20'000);
  return status;
}

}  // namespace profctl
