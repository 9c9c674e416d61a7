#include "comm/node_memory.hpp"

#include "base/contracts.hpp"
#include "base/error.hpp"
#include "base/notice.hpp"
#include "comm/texts.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <new>
#include <optional>
#include <random>
#include <sys/mman.h>
#include <system_error>
#include <unistd.h>

namespace gpt {
namespace {

constexpr int64_t huge_page = int64_t{2} << 20;

std::string reason(int failure) { return std::generic_category().message(failure); }

/// A shared memory object that only this user's processes can open.
class SharedObject {
public:
  explicit SharedObject(std::string name, int flags)
      : name_(std::move(name)), file_(shm_open(name_.c_str(), O_RDWR | flags, 0600)) {}
  ~SharedObject() {
    if (file_ >= 0) close(file_);
  }
  SharedObject(const SharedObject&) = delete;
  SharedObject& operator=(const SharedObject&) = delete;

  int file() const { return file_; }
  void unlink() const { shm_unlink(name_.c_str()); }

private:
  std::string name_;
  int file_;
};

// Once a process: whoever measures several ways of summing meets the same lack of room with each.
void say_once(const std::string& problem) {
  static std::atomic_flag said;
  if (said.test_and_set()) return;
  notice("notice: " + problem + " on this node: its ranks exchange messages instead, which is slower. Make " +
         "/dev/shm larger (docs/reduction.md)");
}

std::string new_name() {
  std::random_device random;
  return fmt::format("/gpt_mpi-{}-{:08x}{:08x}", getpid(), random(), random());
}

}  // namespace

NodeMemory::NodeMemory(MPI_Comm node) : node_(node) {
  check_mpi(MPI_Comm_rank(node, &rank_));
  check_mpi(MPI_Comm_size(node, &size_));
}

NodeMemory::~NodeMemory() { ensures(segments_.empty()); }

void* NodeMemory::allocate(int64_t bytes) {
  Segment segment;
  segment.number = allocations_++;
  segment.bytes = std::max<int64_t>(bytes, 1);
  segment.stride = round_up(segment.bytes, huge_page);
  if (!map_together(segment)) {
    segment.base = nullptr;
    void* const own = mmap(nullptr, static_cast<size_t>(segment.stride), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    validate(own != MAP_FAILED, ExitCode::failed, "no memory for {:.1f} MiB",
             static_cast<double>(bytes) / 0x1p20);
    madvise(own, static_cast<size_t>(segment.stride), MADV_HUGEPAGE);
    segment.own = static_cast<std::byte*>(own);
  }
  const std::lock_guard lock(mutex_);
  segments_.push_back(segment);
  return segment.own;
}

/// False on all ranks of the node if one of them fails.
bool NodeMemory::map_together(Segment& segment) {
  const std::string name = broadcast_text(rank_ == 0 ? new_name() : "", node_);
  const size_t total = static_cast<size_t>(segment.stride * size_);
  // The object has a name only while all ranks are here and open it: a job that is killed at any other time,
  // or in which a rank never comes, leaves nothing behind.
  check_mpi(MPI_Barrier(node_));
  std::string problem;
  std::optional<SharedObject> object;
  if (rank_ == 0) object.emplace(name, O_CREAT | O_EXCL);
  if (rank_ == 0 && (object->file() < 0 || ftruncate(object->file(), static_cast<off_t>(total)) != 0))
    problem = reason(errno);
  check_mpi(MPI_Barrier(node_));
  if (rank_ != 0) object.emplace(name, 0);
  if (problem.empty() && object->file() < 0) problem = reason(errno);
  check_mpi(MPI_Barrier(node_));
  if (rank_ == 0 && object->file() >= 0) object->unlink();
  // Each rank reserves its own part: pages come from the memory near it.
  if (problem.empty()) {
    const int failure = posix_fallocate(object->file(), static_cast<off_t>(segment.stride * rank_),
                                        static_cast<off_t>(segment.bytes));
    if (failure != 0) problem = reason(failure);
  }
  if (problem.empty()) {
    void* const base = mmap(nullptr, total, PROT_READ | PROT_WRITE, MAP_SHARED, object->file(), 0);
    if (base == MAP_FAILED)
      problem = reason(errno);
    else
      segment.base = static_cast<std::byte*>(base);
  }
  const std::vector<std::string> problems = gather_texts(problem, node_);
  const auto found = std::ranges::find_if(problems, [](const auto& text) { return !text.empty(); });
  if (found != problems.end()) {
    if (segment.base != nullptr) munmap(segment.base, total);
    if (rank_ == 0)
      say_once(fmt::format("no {:.1f} MiB of shared memory ({})",
                           static_cast<double>(segment.bytes * size_) / 0x1p20, *found));
    return false;
  }
  madvise(segment.base, total, MADV_HUGEPAGE);
  segment.own = segment.base + segment.stride * rank_;
  return true;
}

void NodeMemory::release(void* data, int64_t) {
  const Segment segment = taken_out(static_cast<std::byte*>(data));
  if (segment.base != nullptr)
    munmap(segment.base, static_cast<size_t>(segment.stride * size_));
  else
    munmap(segment.own, static_cast<size_t>(segment.stride));
}

NodeMemory::Segment NodeMemory::taken_out(const std::byte* own) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(segments_, own, &Segment::own);
  ensures(found != segments_.end());
  const Segment segment = *found;
  segments_.erase(found);
  return segment;
}

bool NodeMemory::shares_all() const {
  const std::lock_guard lock(mutex_);
  return std::ranges::all_of(segments_, [](const Segment& segment) { return segment.base != nullptr; });
}

std::optional<SharedArray> NodeMemory::find(const Tensor& data) const {
  const std::byte* const begin = static_cast<const std::byte*>(data.raw());
  const std::lock_guard lock(mutex_);
  for (const Segment& segment : segments_) {
    const bool holds = segment.base != nullptr && begin >= segment.own &&
                       begin + data.bytes() <= segment.own + segment.bytes;
    if (!holds) continue;
    const int64_t offset = begin - segment.own;
    return SharedArray(segment.base + offset, segment.stride, rank_,
                       {.allocation = segment.number, .offset = offset, .bytes = data.bytes()});
  }
  return std::nullopt;
}

NodeProgress::NodeProgress(NodeMemory& memory)
    : buffer_(memory, static_cast<int64_t>(sizeof(Counters))), rank_(memory.rank()) {
  const Tensor own(buffer_.data(), DType::i32, {static_cast<int64_t>(sizeof(Counters)) / 4});
  const std::optional<SharedArray> shared = memory.find(own);
  works_ = shared.has_value();
  // What lies there is zero, which is how the counters begin.
  for (int member = 0; member < memory.size(); ++member)
    counters_.push_back(static_cast<Counters*>(works_ ? shared->at(member, own).raw() : own.raw()));
}

int64_t NodeProgress::begin(const ArrayPlace& place) {
  of(rank_).place = place;
  of(rank_).begun.store(++operation_, std::memory_order_release);
  return operation_;
}

bool NodeProgress::all_began(int64_t operation) const {
  return std::ranges::all_of(counters_, [operation](const Counters* counters) {
    return counters->begun.load(std::memory_order_acquire) >= operation;
  });
}

void NodeProgress::check_places() const {
  const auto text = [](const ArrayPlace& place) {
    if (place.allocation < 0) return fmt::format("{} bytes of its own memory", place.bytes);
    return fmt::format("{} bytes from {} of allocation {}", place.bytes, place.offset, place.allocation);
  };
  const ArrayPlace& own = of(rank_).place;
  for (size_t member = 0; member < counters_.size(); ++member) {
    const ArrayPlace& other = counters_[member]->place;
    validate(other == own, ExitCode::failed,
             "ranks of one node give an operation different memory: number {} on the node has {}, number {} "
             "has {}; "
             "give the same part of the same allocation on all of them",
             rank_, text(own), member, text(other));
  }
}

void NodeProgress::end(int64_t operation) { of(rank_).ended.store(operation, std::memory_order_release); }

bool NodeProgress::all_ended(int64_t operation) const {
  return std::ranges::all_of(counters_, [operation](const Counters* counters) {
    return counters->ended.load(std::memory_order_acquire) >= operation;
  });
}

}  // namespace gpt
