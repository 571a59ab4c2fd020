package page

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"sluice/internal/delta/footer"
)

var errUnknown = errors.New("a page has an unknown encoding or codec")

// maxRatio is by how much Snappy and LZ4 can shorten a text at most, and a bit.
const maxRatio = 256

// decompress gives the text of a page, which must have size bytes. Memory is taken as the text comes, not as it is
// announced: what grows a thousandfold is found out before it has.
func decompress(codec footer.Codec, b []byte, size int) ([]byte, error) {
	switch codec {
	case footer.Uncompressed:
		if len(b) != size {
			return nil, errBroken
		}
		return b, nil
	case footer.Snappy:
		if n, err := snappy.DecodedLen(b); err != nil || n != size || size > maxRatio*len(b) {
			return nil, errBroken
		}
		return snappy.Decode(make([]byte, size), b)
	case footer.LZ4Raw:
		if size > maxRatio*len(b) {
			return nil, errBroken
		}
		out := make([]byte, size)
		if n, err := lz4.UncompressBlock(b, out); err != nil || n != size {
			return nil, errBroken
		}
		return out, nil
	case footer.Gzip:
		r, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			return nil, err
		}
		return readAll(r, size)
	case footer.Brotli:
		return readAll(brotli.NewReader(bytes.NewReader(b)), size)
	case footer.ZSTD:
		d, err := zstdDecoder()
		if err != nil {
			return nil, err
		}
		out, err := d.DecodeAll(b, nil)
		if err == nil && len(out) != size {
			err = errBroken
		}
		return out, err
	}
	return nil, errUnknown
}

// zstdDecoder is shared: one is expensive to make, and may be used by many at once.
var zstdDecoder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(MaxPage))
})

func readAll(r io.Reader, size int) ([]byte, error) {
	var out bytes.Buffer
	if _, err := io.Copy(&out, io.LimitReader(r, int64(size)+1)); err != nil {
		return nil, err
	}
	if out.Len() != size {
		return nil, errBroken
	}
	return out.Bytes(), nil
}
