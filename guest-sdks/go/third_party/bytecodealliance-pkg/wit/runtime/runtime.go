package runtime

import (
	"fmt"
	"runtime"
	"unsafe"
)

type Handle struct {
	value int32
}

func (h *Handle) Use() int32 {
	if h.value == 0 {
		panic("nil handle")
	}
	return h.value
}

func (h *Handle) Take() int32 {
	if h.value == 0 {
		panic("nil handle")
	}
	value := h.value
	h.value = 0
	return value
}

func (h *Handle) Set(value int32) {
	if value == 0 {
		panic("nil handle")
	}
	if h.value != 0 {
		panic("handle already set")
	}
	h.value = value
}

func (h *Handle) TakeOrNil() int32 {
	value := h.value
	h.value = 0
	return value
}

func MakeHandle(value int32) *Handle {
	if value == 0 {
		panic("nil handle")
	}
	return &Handle{value}
}

func Allocate(pinner *runtime.Pinner, size, align uintptr) unsafe.Pointer {
	pointer := allocateRaw(size, align)
	pinner.Pin(pointer)
	return pointer
}

func allocateRaw(size, align uintptr) unsafe.Pointer {
	if size == 0 {
		return nil
	}

	if size%align != 0 {
		panic(fmt.Sprintf("size %v is not compatible with alignment %v", size, align))
	}

	switch align {
	case 1:
		return unsafe.Pointer(unsafe.SliceData(make([]uint8, size)))
	case 2:
		return unsafe.Pointer(unsafe.SliceData(make([]uint16, size/align)))
	case 4:
		return unsafe.Pointer(unsafe.SliceData(make([]uint32, size/align)))
	case 8:
		return unsafe.Pointer(unsafe.SliceData(make([]uint64, size/align)))
	default:
		panic(fmt.Sprintf("unsupported alignment: %v", align))
	}
}

// Changed from the original from here on: `cabi_realloc` takes its memory from `runtime.sbrk`, outside of Go's heap, at all
// times and not only before the Go runtime is initialised. An allocation in Go's heap may end a garbage collection, which
// asks for the wall clock, and calls of imports from `cabi_realloc` are forbidden by the component model: it would trap.

//go:linkname sbrk runtime.sbrk
func sbrk(n uintptr) unsafe.Pointer

// chunkBytes is what a piece of a body and a usual set of headers fit in.
const chunkBytes = 128 << 10

type chunk struct {
	start, size, used uintptr
}

// Until Go's packages are initialised it is the adapter from preview 1 that asks, for its own state: that stays.
var initialised = false

func init() {
	initialised = true
}

// A fixed number, since a slice would be of Go's heap. Each one that is added is at least twice the last one.
var chunks [24]chunk
var count int

// Unpin takes back all that `cabi_realloc` gave: whoever lifted it has copied what is still needed.
func Unpin() {
	for i := range count {
		chunks[i].used = 0
	}
}

//go:wasmexport cabi_realloc
func cabiRealloc(oldPointer unsafe.Pointer, oldSize, align, newSize uintptr) unsafe.Pointer {
	if oldPointer != nil || oldSize != 0 {
		panic("todo")
	}
	if !initialised {
		start := (uintptr(sbrk(newSize+align)) + align - 1) &^ (align - 1)
		return unsafe.Pointer(start)
	}
	for i := range count {
		if pointer := chunks[i].take(align, newSize); pointer != nil {
			return pointer
		}
	}
	size := uintptr(chunkBytes)
	if count > 0 {
		size = 2 * chunks[count-1].size
	}
	for size < newSize+align {
		size *= 2
	}
	// With the memory that a component can have it never comes to so many.
	chunks[count] = chunk{start: uintptr(sbrk(size)), size: size}
	count++
	return chunks[count-1].take(align, newSize)
}

func (c *chunk) take(align, size uintptr) unsafe.Pointer {
	start := (c.start + c.used + align - 1) &^ (align - 1)
	if start+size > c.start+c.size {
		return nil
	}
	c.used = start + size - c.start
	return unsafe.Pointer(start)
}
