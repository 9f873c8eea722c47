// Package sparse makes archives of files with holes: some hundred bytes that
// read as gigabytes of zeros.
package sparse

import (
	"bytes"
	"fmt"
)

// Format is a way in which a tar says where holes are.
type Format string

// The formats of GNU tar: the old one, and three of records of PAX.
const (
	Old   Format = "old"
	PAX00 Format = "0.0"
	PAX01 Format = "0.1"
	PAX10 Format = "1.0"
)

const blockSize = 512

// Tar returns a tar of files that are nothing but a hole of so many bytes each.
// The first one has the name, others have a number before it.
func Tar(format Format, name string, files int, size int64) []byte {
	var out bytes.Buffer
	for i := range files {
		own := name
		if i > 0 {
			own = fmt.Sprint(i, name)
		}
		file(&out, format, own, size)
	}
	out.Write(make([]byte, 2*blockSize))
	return out.Bytes()
}

func file(out *bytes.Buffer, format Format, name string, size int64) {
	at := fmt.Sprint(size)
	switch format {
	case Old:
		out.Write(header(name, 'S', 0, func(block []byte) {
			copy(block[257:], "ustar  \x00")
			copy(block[386:], fmt.Sprintf("%011o\x00%011o\x00", size, 0))
			copy(block[483:], fmt.Sprintf("%011o\x00", size))
		}))
	case PAX00:
		records(out, "GNU.sparse.numblocks", "1", "GNU.sparse.offset", at, "GNU.sparse.numbytes", "0", "GNU.sparse.size", at)
		out.Write(header(name, '0', 0, nil))
	case PAX01:
		records(out, "GNU.sparse.numblocks", "1", "GNU.sparse.map", at+",0", "GNU.sparse.size", at)
		out.Write(header(name, '0', 0, nil))
	case PAX10:
		records(out, "GNU.sparse.major", "1", "GNU.sparse.minor", "0", "GNU.sparse.realsize", at)
		out.Write(header(name, '0', blockSize, nil))
		padded(out, "1\n"+at+"\n0\n")
	}
}

// records writes those of PAX for the next file: names and values in turns.
func records(out *bytes.Buffer, pairs ...string) {
	text := ""
	for i := 0; i < len(pairs); i += 2 {
		rest := " " + pairs[i] + "=" + pairs[i+1] + "\n"
		length := len(rest) + 2 // all of ours have two digits
		text += fmt.Sprint(length) + rest
	}
	out.Write(header("pax", 'x', len(text), nil))
	padded(out, text)
}

func padded(out *bytes.Buffer, text string) {
	out.WriteString(text)
	out.Write(make([]byte, (blockSize-len(text)%blockSize)%blockSize))
}

// header is a block of USTAR, which change may make another.
func header(name string, kind byte, size int, change func(block []byte)) []byte {
	block := make([]byte, blockSize)
	copy(block, name)
	copy(block[100:], "0000644\x000000000\x000000000\x00")
	copy(block[124:], fmt.Sprintf("%011o\x0000000000000\x00        ", size))
	block[156] = kind
	copy(block[257:], "ustar\x0000")
	if change != nil {
		change(block)
	}
	sum := 0
	for _, b := range block {
		sum += int(b)
	}
	copy(block[148:], fmt.Sprintf("%06o\x00 ", sum))
	return block
}
