package objstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Local is the file system. A key is an absolute path without the leading slash; the ETag is made of inode, size and
// time of change, so it changes when a file is replaced or rewritten.
type Local struct{}

var _ Bucket = Local{}

// Location names a file.
func (Local) Location(key string) Location { return Location{Scheme: SchemeFile, Key: key} }

// path gives the file of a key. A key that is no clean path names nothing a file system could hold.
func (l Local) path(op, key string) (string, error) {
	if key == "" || strings.ContainsRune(key, 0) || filepath.ToSlash(filepath.Clean("/"+key)) != "/"+key {
		return "", &Error{Op: op, Where: l.Location(key), Kind: ErrInvalid, Detail: "a path has no empty, . or .. parts"}
	}
	return filepath.FromSlash("/" + key), nil
}

func (l Local) fail(op, key string, err error) error {
	e := &Error{Op: op, Where: l.Location(key), Err: err}
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ENAMETOOLONG):
		e.Kind = ErrNotFound
	case errors.Is(err, fs.ErrPermission):
		e.Kind, e.Detail = ErrDenied, "the process has no right to "+rightOf(op)+" it"
	}
	return e
}

func rightOf(op string) string {
	switch op {
	case "put", "copy", "delete":
		return "write"
	}
	return "read"
}

func object(key string, info fs.FileInfo) Object {
	var inode uint64
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		inode = uint64(st.Ino) //nolint:unconvert // the field's type differs between systems
	}
	return Object{
		Key: key, Size: info.Size(), Modified: info.ModTime(),
		ETag: fmt.Sprintf(`"%x-%x-%x"`, inode, info.Size(), info.ModTime().UnixNano()),
	}
}

// List walks the directory that the prefix is in. Links to files are followed, links to directories are not.
func (l Local) List(ctx context.Context, prefix, startAfter string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		dir, _ := filepath.Split("/" + prefix)
		err := filepath.WalkDir(filepath.Clean(dir), func(path string, entry fs.DirEntry, err error) error {
			if end := ended(ctx, "list", l.Location(prefix)); end != nil {
				return end
			}
			key := strings.TrimPrefix(filepath.ToSlash(path), "/")
			switch {
			case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
				return nil // not there, or gone since its directory was read
			case err != nil:
				return l.fail("list", key, err)
			case entry.IsDir():
				if sub := key + "/"; key != "" && !strings.HasPrefix(sub, prefix) && !strings.HasPrefix(prefix, sub) {
					return fs.SkipDir
				}
				return nil
			case !strings.HasPrefix(key, prefix) || key <= startAfter:
				return nil
			}
			info, err := os.Stat(path)
			switch {
			case errors.Is(err, fs.ErrNotExist): // gone meanwhile, or a link to nothing
				return nil
			case err != nil:
				return l.fail("list", key, err)
			case !info.Mode().IsRegular():
				return nil
			case !yield(object(key, info), nil):
				return fs.SkipAll
			}
			return nil
		})
		if err != nil {
			yield(Object{}, err)
		}
	}
}

// Get opens a file. The open file stays what it was when it is replaced meanwhile.
func (l Local) Get(ctx context.Context, key string, r Range, ifMatch string) (io.ReadCloser, Object, error) {
	path, err := l.path("get", key)
	if err != nil {
		return nil, Object{}, err
	}
	if err := ended(ctx, "get", l.Location(key)); err != nil {
		return nil, Object{}, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, Object{}, l.fail("get", key, err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fs.ErrNotExist // a directory is no object
	}
	if err != nil {
		f.Close()
		return nil, Object{}, l.fail("get", key, err)
	}
	o := object(key, info)
	if ifMatch != "" && ifMatch != o.ETag {
		f.Close()
		return nil, Object{}, &Error{Op: "get", Where: l.Location(key), Kind: ErrPrecondition}
	}
	from, to := r.resolve(o.Size)
	return &part{io.NewSectionReader(f, from, to-from), f}, o, nil
}

// part is a range of an open file.
type part struct {
	*io.SectionReader
	f *os.File
}

func (p *part) Close() error { return p.f.Close() }

// Head describes a file.
func (l Local) Head(ctx context.Context, key string) (Object, error) {
	path, err := l.path("head", key)
	if err != nil {
		return Object{}, err
	}
	if err := ended(ctx, "head", l.Location(key)); err != nil {
		return Object{}, err
	}
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err != nil {
		return Object{}, l.fail("head", key, err)
	}
	return object(key, info), nil
}

// Put writes beside the target and renames, or links where nothing may be replaced. Missing directories are made.
func (l Local) Put(ctx context.Context, key string, body io.ReadSeeker, o PutOptions) (Object, error) {
	return l.place(ctx, "put", key, o.IfAbsent, func(f *os.File) error {
		if _, err := body.Seek(0, io.SeekStart); err != nil {
			return err
		}
		_, err := io.Copy(f, &reader{ctx, body})
		return err
	})
}

// reader ends with its context.
type reader struct {
	ctx context.Context //nolint:containedctx // it lives for one copy
	r   io.Reader
}

func (r *reader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.r.Read(p)
}

// place makes a file whole or not at all: fill writes it under another name in the same directory.
func (l Local) place(ctx context.Context, op, key string, ifAbsent bool, fill func(*os.File) error) (Object, error) {
	path, err := l.path(op, key)
	if err != nil {
		return Object{}, err
	}
	dir, name := filepath.Split(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Object{}, l.fail(op, key, err)
	}
	f, err := os.CreateTemp(dir, "."+name[:min(len(name), 100)]+".*.part")
	if err != nil {
		return Object{}, l.fail(op, key, err)
	}
	temp := f.Name()
	defer os.Remove(temp) // after the rename there is nothing of that name
	err = fill(f)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return l.finish(ctx, op, key, temp, path, ifAbsent, err)
}

// finish publishes a temporary file, unless making it ended with err.
func (l Local) finish(ctx context.Context, op, key, temp, path string, ifAbsent bool, err error) (Object, error) {
	if err == nil {
		err = publish(temp, path, ifAbsent)
	}
	var own *Error
	switch {
	case err == nil:
		return l.Head(ctx, key)
	case errors.Is(err, fs.ErrExist):
		return Object{}, &Error{Op: op, Where: l.Location(key), Kind: ErrPrecondition, Detail: "it exists already"}
	case ctx.Err() != nil:
		return Object{}, ended(ctx, op, l.Location(key))
	case errors.As(err, &own):
		return Object{}, err
	}
	return Object{}, l.fail(op, key, err)
}

// link gives the source a second, temporary name beside path, if the file system can and it is still the version etag.
func (l Local) link(from, path, etag string) (temp string, ok bool) {
	dir, name := filepath.Split(path)
	source, err := filepath.EvalSymlinks("/" + from) // a hard link to a link would name the link
	if err != nil || os.MkdirAll(dir, 0o755) != nil {
		return "", false
	}
	temp = fmt.Sprintf("%s.%s.%x.part", dir, name[:min(len(name), 100)], rand.Uint64())
	if err := os.Link(source, temp); err != nil {
		return "", false
	}
	info, err := os.Stat(temp)
	if err != nil || object("", info).ETag != etag {
		os.Remove(temp)
		return "", false
	}
	return temp, true
}

// publish gives a finished file its name.
func publish(temp, path string, ifAbsent bool) error {
	if ifAbsent {
		if err := os.Link(temp, path); err != nil {
			return err
		}
	} else if err := os.Rename(temp, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes a new name durable, where directories can be synced.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTSUP) {
		return err
	}
	return nil
}

// Copy links the file under the new name where the file system can, so both names share their bytes; objects are never
// changed in place. Elsewhere the bytes are copied.
func (l Local) Copy(ctx context.Context, from Location, key string, o CopyOptions) (Object, error) {
	if from.Scheme != SchemeFile {
		return Object{}, &Error{Op: "copy", Where: from, Kind: ErrInvalid, Detail: "the source is in another store"}
	}
	path, err := l.path("copy", key)
	if err != nil {
		return Object{}, err
	}
	body, src, err := l.Get(ctx, from.Key, Whole, o.IfMatch)
	if err != nil {
		return Object{}, err
	}
	defer body.Close()
	if temp, ok := l.link(from.Key, path, src.ETag); ok {
		defer os.Remove(temp)
		return l.finish(ctx, "copy", key, temp, path, o.IfAbsent, nil)
	}
	return l.place(ctx, "copy", key, o.IfAbsent, func(f *os.File) error {
		_, err := io.Copy(f, &reader{ctx, body})
		return err
	})
}

// Delete removes a file. Its directories stay.
func (l Local) Delete(ctx context.Context, key string) error {
	path, err := l.path("delete", key)
	if err != nil {
		return err
	}
	if err := ended(ctx, "delete", l.Location(key)); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
		return l.fail("delete", key, err)
	}
	return nil
}
