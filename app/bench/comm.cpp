#include "base/error.hpp"
#include "bench/byte_size.hpp"
#include "bench/comm_report.hpp"
#include "bench/commands.hpp"
#include "bench/memory.hpp"
#include "bench/output_file.hpp"

#include <cstdio>

namespace gpt {
namespace {

struct Options {
  std::string collective = "all_reduce";
  std::string dtype = "f32";
  std::string min_bytes = "4", max_bytes = "128M", sizes;
  int64_t factor = 4;
  std::string what = "mpi,flat,hierarchical,tree";
  std::string inter = "ring";
  std::vector<std::string> wire;
  std::string place = "both";
  CommPlan tuning;
  std::string block = "0";
  int64_t iterations = 20, warmup = 5, repeat = 0;
  bool memory = false;
  std::string node_layout, json;
};

DType dtype_named(const std::string& name) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64})
    if (name == name_of(dtype)) return dtype;
  throw Error(fmt::format("--dtype {}: use f32, bf16 or f64", name), ExitCode::usage);
}

std::vector<int64_t> message_sizes(const Options& options, DType dtype) {
  std::vector<int64_t> sizes;
  if (!options.sizes.empty()) {
    for (const std::string& size : split_list("sizes", options.sizes))
      sizes.push_back(parse_bytes("sizes", size));
  } else {
    const int64_t least = parse_bytes("min-bytes", options.min_bytes);
    const int64_t most = parse_bytes("max-bytes", options.max_bytes);
    validate(least >= 1 && least <= most,
             "--min-bytes {} --max-bytes {}: use 1 or more, and the greater last", options.min_bytes,
             options.max_bytes);
    validate(options.factor >= 2, "--factor {}: use 2 or more", options.factor);
    for (int64_t bytes = least; bytes <= most; bytes *= options.factor) {
      sizes.push_back(bytes);
      if (bytes > most / options.factor) break;
    }
  }
  for (const int64_t bytes : sizes)
    validate(bytes % size_of(dtype) == 0, "{} bytes are no multiple of --dtype {}: use multiples of {}",
             bytes, name_of(dtype), size_of(dtype));
  return sizes;
}

/// @throws Error(usage)
CommBench bench_of(const Options& options) {
  validate(options.place == "in" || options.place == "out" || options.place == "both",
           "--place {}: use in, out or both", options.place);
  validate(options.iterations >= 1 && options.warmup >= 1,
           "--iterations {} --warmup {}: use 1 or more (--repeat sends no warm-up)", options.iterations,
           options.warmup);
  validate(options.repeat >= 0, "--repeat {}: use 1 or more, or 0 for --iterations and --warmup",
           options.repeat);
  CommBench bench{.collective = collective_named(options.collective),
                  .dtype = dtype_named(options.dtype),
                  .sizes = {},
                  .plans = {},
                  .in_place = options.place != "out",
                  .out_of_place = options.place != "in",
                  .iterations = options.repeat > 0 ? options.repeat : options.iterations,
                  .warmup = options.warmup,
                  .exact = options.repeat > 0};
  if (bench.collective != Collective::all_reduce) {
    validate(options.place != "out", "--place out: only all_reduce has two places");
    bench.out_of_place = false;
  }
  bench.sizes = message_sizes(options, bench.dtype);
  return bench;
}

/// @throws Error(usage)
std::vector<ContenderPlan> plans_of(const Options& options, const CommBench& bench, int64_t nodes) {
  std::vector<ContenderPlan> plans =
      contender_plans({.what = split_list("what", options.what),
                       .inter = split_list("inter", options.inter),
                       .wire = options.wire.empty() ? std::vector<std::string>{"fp32"} : options.wire},
                      bench.collective, bench.dtype, nodes);
  const int64_t block = parse_bytes("block", options.block);
  for (ContenderPlan& plan : plans) {
    plan.plan.block_bytes = block;
    plan.plan.window = options.tuning.window;
    plan.plan.shared_memory = options.tuning.shared_memory;
    validate_plan(plan.plan);
  }
  return plans;
}

int64_t sums(World& world, Device& device, const Options& options, const CommBench& bench) {
  const Machine machine = describe_machine(world);
  const std::vector<CommResult> results = measure_comm(world, device, bench);
  int64_t wrong = 0;
  for (const CommResult& result : results) wrong += result.wrong;
  world.everywhere([&] {
    if (!world.is_root()) return;
    print_comm_table(machine, bench, results);
    if (!options.json.empty()) write_json(options.json, comm_json(machine, bench, results));
  });
  return wrong;
}

int64_t memory(World& world, Device& device, const Options& options, const CommBench& bench) {
  const int64_t bytes = options.sizes.empty() ? int64_t{500'000'000} : bench.sizes.front();
  ContenderPlan plan{.name = "hierarchical", .what = "hierarchical", .inter = "", .plan = {}};
  plan.plan.shared_memory = options.tuning.shared_memory;
  const MemoryResult result = measure_memory(world, device, plan, bytes, bench.iterations);
  world.everywhere([&] {
    if (!world.is_root()) return;
    print_memory(result);
    if (!options.json.empty()) write_json(options.json, memory_json(result));
  });
  return result.wrong;
}

}  // namespace

ExitCode bench_comm(World& world, const Arguments& arguments) {
  Options o;
  CommandLine line(
      "gpt_bench comm: sums and copies over the ranks of mpirun or srun, several ways in turns.\n"
      "Ends with exit code 13 if a result is wrong. Columns: docs/benchmarks.md.");
  // clang-format off
  line.group("Messages")
      ("collective", option(o.collective, "NAME"), "all_reduce, reduce_scatter, all_gather, broadcast")
      ("dtype", option(o.dtype, "NAME"), "f32, bf16, f64")
      ("min-bytes", option(o.min_bytes, "BYTES"), "smallest message; K, M, G are powers of 1024")
      ("max-bytes", option(o.max_bytes, "BYTES"), "largest")
      ("factor", option(o.factor, "N"), "from one to the next")
      ("sizes", option(o.sizes, "BYTES,..."), "these instead")
      ("place", option(o.place, "in|out|both"), "whether the result overwrites what is summed (all_reduce)");
  line.group("Implementations")
      ("what", option(o.what, "NAME,..."), "mpi (the library's blocking call), flat, hierarchical, tree")
      ("inter", option(o.inter, "NAME,..."), "hierarchical, between nodes: mpi, ring, halving, direct")
      ("wire", list(o.wire, "TYPE..."),
       "hierarchical, f32 travels as (default fp32): fp32; bf16; fp32,bf16 (in the node, between nodes)")
      ("block", option(o.block, "BYTES"), "hierarchical: of a lane that goes through the hops at a time; 0: by the number of nodes")
      ("window", option(o.tuning.window, "N"), "hierarchical: blocks under way at a time")
      ("shared-memory", option(o.tuning.shared_memory, "true|false"),
       "hierarchical: ranks of a node share memory where there is room")
      ("node-layout", option(o.node_layout, "LAYOUT"),
       "pretend nodes: '3,1' ranks a node; '@0,1,0,1' a node a rank");
  line.group("Measuring")
      ("iterations", option(o.iterations, "N"), "of each, in turns")
      ("warmup", option(o.warmup, "N"), "of each before")
      ("repeat", option(o.repeat, "N"), "exactly N of each instead and nothing else, to count bytes by")
      ("memory", option(o.memory, "true|false"),
       "instead: sums in one node's memory beside its bandwidth (500 MB, or the first of --sizes)")
      ("json", option(o.json, "FILE"), "write the figures there");
  // clang-format on
  if (!parse(line, arguments, world)) return ExitCode::finished;
  CommBench bench;
  world.everywhere([&] {
    bench = bench_of(o);
    if (world.is_root()) check_output_file("json", o.json);
  });
  world.set_layout({o.node_layout});
  world.everywhere([&] {
    validate(!o.memory || world.nodes() == 1, "--memory: measures one node, but the ranks are on {}",
             world.nodes());
    bench.plans = plans_of(o, bench, world.nodes());
  });
  const std::unique_ptr<Device> device = make_cpu_device(1);
  const int64_t wrong = o.memory ? memory(world, *device, o, bench) : sums(world, *device, o, bench);
  std::fflush(stdout);
  world.everywhere([&] {
    validate(wrong == 0, ExitCode::bad_numbers, "{} elements are wrong: see the column #wrong", wrong);
  });
  return ExitCode::finished;
}

}  // namespace gpt
