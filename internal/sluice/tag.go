package sluice

import "strings"

// FooterTag begins the tag of a file's content that Sluice itself takes, of the file's footer, so that it is not compared with
// the tag that a store gives to an object.
const FooterTag = "footer:"

// IsFooterTag reports whether a batch's etag is one of ours.
func IsFooterTag(etag string) bool { return strings.HasPrefix(etag, FooterTag) }
