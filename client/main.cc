#include <iostream>

#include "client/command_line/cli.h"
#include "client/io/terminal.h"

int main(int argc, char** argv) {
  return profctl::Run(argc, argv, std::cout, std::cerr, profctl::DetectTerminal());
}
