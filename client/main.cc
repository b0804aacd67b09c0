#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <string_view>

#include "client/cli.h"

namespace {

// https://no-color.org: any non-empty value says no.
bool WantsColour() {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  const bool refused = no_color != nullptr && *no_color != '\0';
  return !refused && isatty(STDOUT_FILENO) != 0 && term != nullptr &&
         std::string_view(term) != "dumb";
}

}  // namespace

int main(int argc, char** argv) {
  return profctl::Run(argc, argv, std::cout, std::cerr, WantsColour());
}
