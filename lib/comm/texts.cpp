#include "comm/texts.hpp"

#include "base/contracts.hpp"

#include <algorithm>

namespace gpt {

std::string broadcast_text(std::string text, MPI_Comm comm, int64_t limit) {
  int64_t length = std::ssize(text);
  check_mpi(MPI_Bcast(&length, 1, MPI_INT64_T, 0, comm));
  text.resize(static_cast<size_t>(length));
  for (int64_t begin = 0; begin < length; begin += limit) {
    const auto count = static_cast<int>(std::min(limit, length - begin));
    check_mpi(MPI_Bcast(text.data() + begin, count, MPI_CHAR, 0, comm));
  }
  return text;
}

std::vector<std::string> gather_texts(std::string_view text, MPI_Comm comm, int64_t limit) {
  int rank = 0, size = 0;
  check_mpi(MPI_Comm_rank(comm, &rank));
  check_mpi(MPI_Comm_size(comm, &size));
  const int64_t length = std::ssize(text);
  std::vector<int64_t> lengths(static_cast<size_t>(size));
  check_mpi(MPI_Allgather(&length, 1, MPI_INT64_T, lengths.data(), 1, MPI_INT64_T, comm));

  const int64_t share = limit / size;
  expects(share > 0);
  const int64_t longest = *std::ranges::max_element(lengths);
  std::vector<std::string> texts(static_cast<size_t>(size));
  for (int64_t begin = 0; begin < longest; begin += share) {
    std::vector<int> counts, offsets;
    int total = 0;
    for (const int64_t other : lengths) {
      counts.push_back(static_cast<int>(std::clamp<int64_t>(other - begin, 0, share)));
      offsets.push_back(total);
      total += counts.back();
    }
    std::string received(static_cast<size_t>(total), '\0');
    const int count = counts[static_cast<size_t>(rank)];
    check_mpi(MPI_Allgatherv(count > 0 ? text.data() + begin : nullptr, count, MPI_CHAR, received.data(),
                             counts.data(), offsets.data(), MPI_CHAR, comm));
    for (size_t i = 0; i < texts.size(); ++i) {
      texts[i].append(received, static_cast<size_t>(offsets[i]), static_cast<size_t>(counts[i]));
    }
  }
  return texts;
}

}  // namespace gpt
