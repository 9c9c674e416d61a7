#include "base/notice.hpp"

#include <cstdio>
#include <exception>
#include <string>

namespace gpt {

void notice(std::string_view line) noexcept try {
  std::fflush(stdout);  // so that the two streams keep their order on a terminal
  std::fputs((std::string(line) + '\n').c_str(), stderr);
  std::fflush(stderr);
} catch (const std::exception&) {  // no memory for the line
  std::fputs("a message is lost: out of memory\n", stderr);
}

}  // namespace gpt
