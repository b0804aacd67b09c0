#include <iostream>

#include "client/cli.h"
#include "client/terminal.h"

int main(int argc, char** argv) {
  return profctl::Run(argc, argv, std::cout, std::cerr, profctl::DetectTerminal());
}
