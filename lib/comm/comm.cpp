#include "comm/comm.hpp"

namespace gpt {

int64_t Comm::part_size(int64_t count) const { return count / (owners() * alignment) * alignment; }

Range Comm::tail(int64_t count) const { return {owners() * part_size(count), count}; }

}  // namespace gpt
