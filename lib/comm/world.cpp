#include "comm/world.hpp"

#include "base/contracts.hpp"
#include "base/notice.hpp"
#include "comm/ending.hpp"
#include "comm/launch.hpp"
#include "comm/node_layout.hpp"
#include "comm/texts.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <map>
#include <optional>
#include <sstream>
#include <thread>
#include <unistd.h>
#include <utility>

namespace gpt {
namespace {

std::string program_name(const char* path) {
  const std::string_view text = path == nullptr ? "gpt" : path;
  return std::string(text.substr(text.rfind('/') + 1));
}

void print_error(std::string_view program, std::string_view message) {
  notice(fmt::format("{}: {}", program, message));
}

int exit_code_of(const std::exception& error) {
  const auto* own = dynamic_cast<const Error*>(&error);
  return static_cast<int>(own != nullptr ? own->code() : ExitCode::failed);
}

CommHandle split(MPI_Comm comm, int color, int key) {
  MPI_Comm part = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(comm, color, key, &part));
  CommHandle handle(part);
  if (handle) check_mpi(MPI_Comm_set_errhandler(part, MPI_ERRORS_RETURN));
  return handle;
}

constexpr int collect_tag = 17;
constexpr int64_t collect_piece = int64_t{1} << 30;  // MPI counts in int

/// A blocking call would spin in MPI's progress, and take the core from whoever computes.
void wait_patiently(MPI_Request& request) {
  constexpr std::chrono::microseconds shortest(50), longest(2000);
  std::chrono::microseconds pause = shortest;
  for (;;) {
    int done = 0;
    check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
    if (done != 0) return;
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, longest);
  }
}

// The node of every rank as MPI finds it: ranks that can share memory.
NodeOfRank find_nodes(int rank, int size) {
  MPI_Comm part = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &part));
  const CommHandle shared(part);
  int first = rank;
  check_mpi(MPI_Bcast(&first, 1, MPI_INT, 0, part));
  NodeOfRank firsts(static_cast<size_t>(size));
  check_mpi(MPI_Allgather(&first, 1, MPI_INT, firsts.data(), 1, MPI_INT, MPI_COMM_WORLD));
  return number_nodes(firsts);
}

/// By the root, of faults that did nothing on any rank: launchers may hand the variable to some only.
void say_idle_faults_of(const World& world) {
  world.watchdog().enter(Phase::end, 0);
  std::string mine;
  for (const FaultUse& use : fault_uses()) mine += fmt::format("{}{}\n", use.acted ? '+' : '-', use.text);
  std::map<std::string, bool> acted;
  for (const std::string& uses : world.gather(mine)) {
    std::istringstream lines(uses);
    for (std::string line; std::getline(lines, line);) acted[line.substr(1)] |= line.front() == '+';
  }
  std::vector<FaultUse> all;
  for (const auto& [text, has_acted] : acted) all.push_back({.text = text, .acted = has_acted});
  if (world.is_root()) say_idle_faults(all);
}

}  // namespace

World::World(int& argc, char**& argv, std::optional<double> timeout)
    : program_(program_name(argc > 0 ? argv[0] : nullptr)),
      watchdog_(timeout ? std::make_unique<Watchdog>(program_, *timeout) : std::make_unique<Watchdog>()) {
  std::optional<std::string> fault = lone_task_fault([](const char* name) { return std::getenv(name); });
  int initialized = 0;
  MPI_Initialized(&initialized);
  int provided = 0;
  if (initialized != 0) {
    check_mpi(MPI_Query_thread(&provided));
  } else {
    const std::optional<std::string> certain = unmanaged_step_fault(environ);
    validate(!certain, "{}", certain.value_or(""));
    // Open MPI's default for files makes a semaphore in /dev/shm that is named like the file, without its
    // folder: jobs of several users on a host would share it, and one that is left behind stops every later
    // save. Nobody here uses the shared file pointers that it is for.
    setenv("OMPI_MCA_sharedfp", "individual", 0);
    check_mpi(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    owns_mpi_ = true;
  }
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank_));
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size_));

  if (size_ > 1) fault.reset();
  if (provided < MPI_THREAD_MULTIPLE) {
    fault = "this MPI library does not serve several threads (MPI_THREAD_MULTIPLE): use a build that does";
  }
  if (fault) {
    if (owns_mpi_) MPI_Finalize();  // both faults are found by every rank of this world
    throw SharedError(*fault, ExitCode::usage);
  }

  std::array<char, MPI_MAX_PROCESSOR_NAME> name{};
  int length = 0;
  check_mpi(MPI_Get_processor_name(name.data(), &length));
  host_.assign(name.data(), static_cast<size_t>(length));
  watchdog_->connect(rank_, size_, host_);
  found_ = find_nodes(rank_, size_);
  const NodePlace place = place_of(rank_, found_);
  local_rank_ = place.index;
  local_size_ = place.size;
}

World::World(const World& whole, CommHandle part)
    : program_(whole.program_),
      watchdog_(std::make_unique<Watchdog>()),
      world_(part.get()),
      part_(std::move(part)),
      host_(whole.host_) {
  check_mpi(MPI_Comm_rank(world_, &rank_));
  check_mpi(MPI_Comm_size(world_, &size_));
  const auto first_of = [&](int node) {
    std::vector<int> nodes(static_cast<size_t>(size_));
    check_mpi(MPI_Allgather(&node, 1, MPI_INT, nodes.data(), 1, MPI_INT, world_));
    return number_nodes(nodes);
  };
  found_ = first_of(whole.found_[static_cast<size_t>(whole.rank_)]);
  const NodePlace place = place_of(rank_, found_);
  local_rank_ = place.index;
  local_size_ = place.size;
  const NodeOfRank nodes = first_of(whole.node_index_);
  pretended_ = nodes != found_;
  split_nodes(nodes);
}

std::unique_ptr<World> World::duplicate() const {
  expects(node_.get() != MPI_COMM_NULL);
  std::unique_ptr<World> copy(new World(*this, split(world_, 0, rank_)));
  copy->patient_ = true;
  return copy;
}

std::unique_ptr<World> World::duplicate_node() const {
  expects(node_.get() != MPI_COMM_NULL);
  std::unique_ptr<World> copy(new World(*this, split(world_, node_index_, rank_)));
  copy->patient_ = true;
  return copy;
}

std::unique_ptr<World> World::first(int ranks) const {
  expects(node_ && ranks >= 1 && ranks <= size_);
  const bool inside = rank_ < ranks;
  CommHandle part = split(world_, inside ? 0 : MPI_UNDEFINED, rank_);
  if (!inside) return nullptr;
  return std::unique_ptr<World>(new World(*this, std::move(part)));
}

std::unique_ptr<World> World::part(int color) const {
  expects(node_ && color >= 0);
  return std::unique_ptr<World>(new World(*this, split(world_, color, rank_)));
}

World::~World() {
  if (std::uncaught_exceptions() > 0) {
    node_.release();
    peers_.release();
    part_.release();
    return;
  }
  if (part_) return;
  try {
    watchdog_->enter(Phase::end, 0);
    fault_point("end");
    watchdog_->disconnect();
  } catch (const std::exception& error) {
    end_alone(error);  // another rank was lost on its way here, most likely
  }
  node_.reset();
  peers_.reset();
  if (owns_mpi_) MPI_Finalize();
}

void World::set_layout(const NodeLayout& layout) {
  expects(!node_);
  const std::string of_root = broadcast(layout.text);
  const std::vector<std::string> hosts = gather(host_);
  NodeOfRank nodes = found_;
  everywhere([&] {
    validate(layout.text == of_root,
             "--node-layout is '{}' here, but '{}' on rank 0: give all ranks the same", layout.text, of_root);
    if (layout.text.empty()) return;
    nodes = parse_node_layout(layout.text, size_);
    validate_splits_only(nodes, found_, hosts);
  });
  pretended_ = nodes != found_;
  split_ = pretended_ ? describe_split(nodes, hosts) : "";
  disagreement_ = pretended_ ? "" : host_disagreement(nodes, hosts);

  split_nodes(nodes);
}

void World::split_nodes(const NodeOfRank& nodes) {
  const NodePlace place = place_of(rank_, nodes);
  node_index_ = place.node;
  nodes_ = place.nodes;
  node_rank_ = place.index;
  node_size_ = place.size;
  node_ = split(world_, node_index_, rank_);
  peers_ = split(world_, node_rank_, node_index_);
}

std::vector<int> World::gather_codes(int code) const {
  std::vector<int> codes(static_cast<size_t>(size_));
  if (!patient_) {
    check_mpi(MPI_Allgather(&code, 1, MPI_INT, codes.data(), 1, MPI_INT, world_));
    return codes;
  }
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Iallgather(&code, 1, MPI_INT, codes.data(), 1, MPI_INT, world_, &request));
  wait_patiently(request);
  return codes;
}

void World::everywhere(const std::function<void()>& work) const {
  std::string message;
  int code = 0;
  std::optional<int> origin;  // of what was shared before
  try {
    work();
  } catch (const std::exception& error) {
    message = error.what();
    code = std::max(exit_code_of(error), 1);
    if (const auto* shared = dynamic_cast<const SharedError*>(&error)) origin = shared->rank();
  }
  const Watchdog::Waiting waiting(*watchdog_);
  const std::vector<int> codes = gather_codes(code);
  const auto failed = std::ranges::find_if(codes, [](int other) { return other != 0; });
  if (failed == codes.end()) return;

  const std::vector<std::string> messages = gather(message);
  const std::vector<std::string> hosts = gather(host_);
  const auto first = static_cast<size_t>(failed - codes.begin());
  const bool alike =
      std::ranges::count(codes, 0) == 0 &&
      std::ranges::all_of(messages, [&](const auto& other) { return other == messages[first]; });
  const auto shared_code = static_cast<ExitCode>(codes[first]);
  if (alike) throw SharedError(messages[first], shared_code, origin);
  throw SharedError(fmt::format("rank {} on {}: {}", first, hosts[first], messages[first]), shared_code,
                    static_cast<int>(first));
}

std::string World::broadcast(std::string text) const {
  const Watchdog::Waiting waiting(*watchdog_);
  return broadcast_text(std::move(text), world_);
}

std::vector<std::string> World::gather(std::string_view text) const {
  const Watchdog::Waiting waiting(*watchdog_);
  return gather_texts(text, world_);
}

void World::complete(MPI_Request request) const {
  if (patient_) return wait_patiently(request);
  check_mpi(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

void World::send_to_root(std::string_view text) const {
  const Watchdog::Waiting waiting(*watchdog_);
  const int64_t length = std::ssize(text);
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Isend(&length, 1, MPI_INT64_T, 0, collect_tag, world_, &request));
  complete(request);
  for (int64_t begin = 0; begin < length; begin += collect_piece) {
    const auto count = static_cast<int>(std::min(collect_piece, length - begin));
    check_mpi(MPI_Isend(text.data() + begin, count, MPI_CHAR, 0, collect_tag, world_, &request));
    complete(request);
  }
}

std::string World::receive_from(int rank) const {
  const Watchdog::Waiting waiting(*watchdog_);
  int64_t length = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Irecv(&length, 1, MPI_INT64_T, rank, collect_tag, world_, &request));
  complete(request);
  std::string text(static_cast<size_t>(length), '\0');
  for (int64_t begin = 0; begin < length; begin += collect_piece) {
    const auto count = static_cast<int>(std::min(collect_piece, length - begin));
    check_mpi(MPI_Irecv(text.data() + begin, count, MPI_CHAR, rank, collect_tag, world_, &request));
    complete(request);
  }
  return text;
}

void World::collect(std::string_view text, const std::function<void(std::string_view)>& take) const {
  if (!is_root()) return send_to_root(text);
  std::exception_ptr failure;
  for (int rank = 0; rank < size_; ++rank) {
    const std::string other = rank == 0 ? std::string() : receive_from(rank);
    watchdog_->tick();
    if (failure) continue;
    try {
      take(rank == 0 ? text : std::string_view(other));
    } catch (...) {
      failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

void World::barrier() const {
  const Watchdog::Waiting waiting(*watchdog_);
  if (!patient_) return check_mpi(MPI_Barrier(world_));
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Ibarrier(world_, &request));
  wait_patiently(request);
}

int World::fail(const std::exception& error, const std::optional<RankStatus>& at) const {
  const int code = exit_code_of(error);
  const bool shared = dynamic_cast<const SharedError*>(&error) != nullptr;
  if (shared || size_ == 1) {
    watchdog_->end_unwinding();
    if (!is_root()) return code;
    print_error(program_, error.what());
    watchdog_->write_verdict(error, at);
    return code;
  }
  end_alone(error, at);
}

void World::end_alone(const std::exception& error, const std::optional<RankStatus>& at) const {
  const int code = exit_code_of(error);
  end_job(code, [&] {
    print_error(program_, fmt::format("rank {} on {}: {}", rank_, host_, error.what()));
    watchdog_->write_verdict(error, at);
  });
}

int run_program(int argc, char** argv, Program program, const std::function<int(World&, int, char**)>& body,
                double timeout) {
  const std::string name = program_name(argc > 0 ? argv[0] : nullptr);
  try {
    World world(argc, argv, timeout);
    try {
      world.everywhere([&] { configure_faults(world.rank(), program); });
      fault_point("start");
      const int code = body(world, argc, argv);
      say_idle_faults_of(world);
      return code;
    } catch (const std::exception& error) {
      return world.fail(error);
    }
  } catch (const std::exception& error) {
    print_error(name, error.what());
    return exit_code_of(error);
  }
}

}  // namespace gpt
