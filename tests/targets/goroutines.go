// A Go program whose threads wait for known things: a goroutine with a thread of its own reads
// bytes that another one writes at a known pace, and others compute.
package main

import (
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

const (
	rounds = 200
	pace   = 10 * time.Millisecond
)

var sink uint64

//go:noinline
func readByte(fd int, byte []byte) {
	for {
		n, err := syscall.Read(fd, byte)
		if n == 1 {
			return
		}
		if err != syscall.EINTR && err != nil {
			panic(err)
		}
	}
}

//go:noinline
func awaitBytes(fd int) {
	var byte [1]byte
	for i := 0; i < rounds; i++ {
		readByte(fd, byte[:])
	}
}

// Its read blocks once for each byte.
func reader(fd int, done chan<- bool) {
	runtime.LockOSThread()
	awaitBytes(fd)
	done <- true
}

func writer(fd int) {
	runtime.LockOSThread()
	for i := 0; i < rounds; i++ {
		wait := syscall.NsecToTimespec(pace.Nanoseconds())
		for syscall.Nanosleep(&wait, &wait) == syscall.EINTR {
		}
		syscall.Write(fd, []byte{1})
	}
}

//go:noinline
func descend(depth int) uint64 {
	if depth == 0 {
		sum := uint64(0)
		for i := uint64(0); i < 1000000; i++ {
			sum += i * i
		}
		return sum
	}
	return descend(depth-1) + 1
}

// Computes, and makes garbage that the runtime collects on its own stack.
func compute(stop <-chan bool) {
	for {
		select {
		case <-stop:
			return
		default:
			garbage := make([]byte, 1<<16)
			sink += descend(20) + uint64(len(garbage))
			time.Sleep(time.Millisecond)
		}
	}
}

func awaitLine() bool {
	var byte [1]byte
	for {
		n, _ := os.Stdin.Read(byte[:])
		if n != 1 {
			return false
		}
		if byte[0] == '\n' {
			return true
		}
	}
}

func main() {
	os.Stdout.WriteString("ready " + strconv.Itoa(os.Getpid()) + "\n")
	if !awaitLine() {
		return
	}
	var pipe [2]int
	if err := syscall.Pipe(pipe[:]); err != nil {
		panic(err)
	}
	done, stop := make(chan bool), make(chan bool)
	go reader(pipe[0], done)
	go writer(pipe[1])
	go compute(stop)
	<-done
	stop <- true
	os.Stdout.WriteString("{\"pid\": " + strconv.Itoa(os.Getpid()) + ", \"rounds\": " +
		strconv.Itoa(rounds) + "}\n")
	for awaitLine() {
	}
}
