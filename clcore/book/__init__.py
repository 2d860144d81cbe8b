"""The book's machinery: the frame of a chapter, the build, the pages and the site."""
