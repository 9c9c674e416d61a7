#include "element.hpp"
#include "operation.hpp"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <vector>

namespace standin {
namespace {

/// Bytes that a rank sends to another at once: MPI counts in int, and long vectors take several rounds.
constexpr size_t kRound = size_t{64} << 20;

bool tested(MPI_Request& request) {
  int flag = 0;
  MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
  return flag != 0;
}

/// First compares the terms over the ranks, then moves the elements round by round through copies on the
/// host, and combines them here, so that the result depends neither on the MPI nor on timing.
class Collective : public Operation {
public:
  Collective(ncclComm& comm, const Terms& terms, const void* send, void* receive)
      : Operation(comm),
        terms_(terms),
        send_(static_cast<const char*>(send)),
        receive_(static_cast<char*>(receive)),
        element_(element_bytes(terms.type)),
        of_ranks_(size_t(comm.size)) {}

  bool is_collective() const override { return true; }
  std::string describe() const override {
    return fmt::format("the other ranks: rank {} of {} is in {}", comm().rank, comm().size,
                       standin::describe(terms_));
  }

  bool progress() override {
    switch (stage_) {
      case Stage::begin:
        MPI_Iallgather(&terms_, sizeof terms_, MPI_BYTE, of_ranks_.data(), sizeof terms_, MPI_BYTE,
                       comm().mpi, &request_);
        stage_ = Stage::agreeing;
        [[fallthrough]];
      case Stage::agreeing:
        if (!tested(request_)) return false;
        check_terms(of_ranks_.data(), comm().size);
        if (terms_.count == 0) return true;
        begin_round();
        stage_ = Stage::moving;
        [[fallthrough]];
      case Stage::moving:
        while (tested(request_)) {
          end_round();
          done_ += round_;
          if (done_ == terms_.count) return true;
          begin_round();
        }
        return false;
    }
    return false;
  }

private:
  enum class Stage { begin, agreeing, moving };

  size_t ranks() const { return size_t(comm().size); }
  bool is_root() const { return comm().rank == terms_.root; }
  bool each_rank_has_its_part() const { return terms_.meeting == Meeting::reduce_scatter; }
  bool gives() const { return terms_.meeting != Meeting::broadcast || is_root(); }
  bool takes() const { return terms_.meeting != Meeting::reduce || is_root(); }

  void begin_round() {
    round_ = std::min<size_t>(terms_.count - done_, kRound / element_);
    const size_t bytes = round_ * element_;
    const size_t parts = each_rank_has_its_part() ? ranks() : 1;
    out_.resize(parts * bytes);
    if (gives())
      for (size_t part = 0; part < parts; ++part)
        std::memcpy(out_.data() + part * bytes, send_ + (part * terms_.count + done_) * element_, bytes);
    in_.resize(terms_.meeting == Meeting::broadcast || !takes() ? 0 : ranks() * bytes);
    const int length = int(bytes);
    switch (terms_.meeting) {
      case Meeting::all_reduce:
      case Meeting::all_gather:
        MPI_Iallgather(out_.data(), length, MPI_BYTE, in_.data(), length, MPI_BYTE, comm().mpi, &request_);
        break;
      case Meeting::reduce:
        MPI_Igather(out_.data(), length, MPI_BYTE, in_.data(), length, MPI_BYTE, terms_.root, comm().mpi,
                    &request_);
        break;
      case Meeting::broadcast:
        MPI_Ibcast(out_.data(), length, MPI_BYTE, terms_.root, comm().mpi, &request_);
        break;
      case Meeting::reduce_scatter:
        MPI_Ialltoall(out_.data(), length, MPI_BYTE, in_.data(), length, MPI_BYTE, comm().mpi, &request_);
        break;
      case Meeting::finalize:
        break;
    }
  }

  void end_round() {
    if (!takes()) return;
    const size_t bytes = round_ * element_;
    char* const result = receive_ + done_ * element_;
    if (terms_.meeting == Meeting::broadcast) {
      std::memcpy(result, out_.data(), bytes);
    } else if (terms_.meeting == Meeting::all_gather) {
      for (size_t rank = 0; rank < ranks(); ++rank)
        std::memcpy(result + rank * terms_.count * element_, in_.data() + rank * bytes, bytes);
    } else {
      combine(result, in_.data(), round_, comm().size, terms_.type, terms_.reduction);
    }
  }

  Terms terms_;
  const char* send_;
  char* receive_;
  size_t element_;
  std::vector<Terms> of_ranks_;
  std::vector<char> out_, in_;
  Stage stage_ = Stage::begin;
  MPI_Request request_ = MPI_REQUEST_NULL;
  size_t done_ = 0;   // elements
  size_t round_ = 0;  // elements of this round
};

}  // namespace

std::unique_ptr<Operation> new_collective(ncclComm& comm, const Terms& terms, const void* send,
                                          void* receive) {
  return std::make_unique<Collective>(comm, terms, send, receive);
}

}  // namespace standin
