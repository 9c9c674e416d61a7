#include "train/console.hpp"

#include <cstdio>
#include <sys/ioctl.h>
#include <unistd.h>

namespace gpt {
namespace {

constexpr const char* erase_line = "\r\033[K";

/// Columns of the terminal behind standard output; 0 if there is none, or one that nobody looks at: Open MPI
/// gives its ranks a terminal without a size, wherever their output goes.
size_t terminal_columns() {
  struct winsize size {};
  if (isatty(STDOUT_FILENO) != 1 || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col;
}

}  // namespace

Console::Console(bool speaks) : speaks_(speaks), terminal_(speaks && terminal_columns() > 0) {}

Console::~Console() {
  if (moving_) write("\n");
}

void Console::say(const std::string& line) {
  write((moving_ ? erase_line : "") + line + "\n");
  moving_ = false;
}

void Console::move(const std::string& line) {
  const size_t columns = terminal_ ? terminal_columns() : 0;
  if (columns == 0) return;
  write(erase_line + line.substr(0, columns - 1));  // a line that wraps could not be erased
  moving_ = true;
}

void Console::write(const std::string& text) {
  if (!speaks_) return;
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

}  // namespace gpt
